"""What identity needs to be told: who signs tokens, what this server is called, and what it shares with OXP clients."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec


class Issuer(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs tokens that are good here; `name` begins the ids of its callers."""

    name: str
    issuer: str
    jwks_url: str | None = None  # None: as its discovery document says
    audience: str | None = None  # None: this server's own resource


class IssuerSettings(Protocol):
    """An issuer as the settings have it."""

    @property
    def name(self) -> str:
        """What its callers' ids begin with."""
        ...

    @property
    def issuer(self) -> str:
        """Its URL, exactly as its tokens say it."""
        ...

    @property
    def jwks_url(self) -> str | None:
        """Where its keys are."""
        ...


class IdentitySettings(Protocol):
    """The settings that decide who is proven, and how."""

    @property
    def profile(self) -> Literal["local", "server"]:
        """Whether being on this machine is a proof."""
        ...

    @property
    def public_url(self) -> str | None:
        """Where others reach this server."""
        ...

    @property
    def resource(self) -> str | None:
        """What tokens call this server; by default its public URL."""
        ...

    @property
    def issuers(self) -> Sequence[IssuerSettings]:
        """Who signs tokens."""
        ...

    @property
    def oxp_secret(self) -> str | None:
        """What OXP clients sign their tokens with."""
        ...

    @property
    def allow_anonymous(self) -> bool:
        """Whether nobody in particular may list and call tools of level 0."""
        ...

    @property
    def public_metrics(self) -> bool:
        """Whether anybody may read the metrics."""
        ...

    @property
    def egress_allow(self) -> Sequence[str]:
        """Private hosts that may be reached from here."""
        ...


class Resource(msgspec.Struct, frozen=True):
    """What this server is called by tokens: one name that the settings give, or its public URL and what is below it."""

    public_url: str | None = None
    stated: str | None = None

    @property
    def audiences(self) -> frozenset[str]:
        """Every name that means this server."""
        if self.stated is not None:
            return frozenset({self.stated})
        if self.public_url is None:
            return frozenset()
        return frozenset({self.public_url, f"{self.public_url}/", f"{self.public_url}/mcp"})

    def of(self, path: str) -> str | None:
        """What is served at a path, the root having none."""
        return self.stated or (None if self.public_url is None else f"{self.public_url}{path}")


def resource_of(settings: IdentitySettings) -> Resource:
    """What this server is called."""
    public = None if settings.public_url is None else settings.public_url.rstrip("/")
    return Resource(public, settings.resource)
