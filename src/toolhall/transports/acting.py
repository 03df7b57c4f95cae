"""For whom a call is made: a message may name a user, which never makes its caller somebody else."""

import msgspec

from toolhall.model.caller import ACT_AS, Caller
from toolhall.model.errors import Denied

_REFUSAL = (
    "context.user_id names another user than this caller; leave it out, or use a credential with the scope act_as"
)


def acting(caller: Caller, user_id: str | None) -> Caller | None:
    """The caller, with the user it may act for; None where it may not."""
    if user_id is None or user_id in caller.names:
        return caller
    if ACT_AS not in caller.scopes:
        return None
    return msgspec.structs.replace(caller, acting_for=user_id)


def not_acting() -> Denied:
    """What is recorded of whoever may not."""
    return Denied(_REFUSAL, scopes=(ACT_AS,))
