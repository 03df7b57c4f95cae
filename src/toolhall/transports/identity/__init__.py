"""Who calls: proven by a credential or by the connection, never by what a message claims."""

from toolhall.model.caller import NOBODY
from toolhall.transports.identity.base import Identity, Unproven, proven
from toolhall.transports.identity.local import LocalIdentity
from toolhall.transports.identity.server import ServerIdentity

__all__ = ["NOBODY", "Identity", "LocalIdentity", "ServerIdentity", "Unproven", "proven"]
