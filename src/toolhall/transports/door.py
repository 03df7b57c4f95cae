"""Everything at the entrance of a hall: who is let in, what is said to the others, and what anybody may read."""

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from toolhall.transports.challenges import Challenges
from toolhall.transports.http import Methods
from toolhall.transports.identity.base import Entrance
from toolhall.transports.identity.building import build_identity
from toolhall.transports.identity.gate import Keys
from toolhall.transports.identity.settings import IdentitySettings, resource_of
from toolhall.transports.wellknown import WellKnown


class Door(NamedTuple):
    """What the HTTP application is given."""

    identity: Entrance
    challenges: Challenges | None
    endpoints: dict[str, Methods]
    takes_credentials: Callable[[], bool] = bool  # whether any could be valid


def build_door(name: str, settings: IdentitySettings, keys: Keys, clock: Callable[[], float]) -> Door:
    """The entrance as the settings ask for it; where nobody needs a token, nobody is told where to get one."""
    identity = build_identity(settings, keys, clock)

    def takes_credentials() -> bool:
        return bool(settings.issuers) or settings.oxp_secret is not None or len(keys) > 0

    if settings.profile == "local" and not settings.issuers:
        return Door(identity, None, {}, takes_credentials)
    resource = resource_of(settings)
    known = WellKnown(name, resource, [issuer.issuer for issuer in settings.issuers])
    return Door(identity, Challenges(resource.public_url), known.endpoints(), takes_credentials)


def hosts_of(settings: IdentitySettings) -> frozenset[str]:
    """The name that others use for this server."""
    host = urlsplit(settings.public_url or "").hostname
    return frozenset({f"[{host}]" if ":" in host else host}) if host else frozenset()
