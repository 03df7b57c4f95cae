"""Settings protocols of authentication, `TokenIssuer`, and `ProtectedResource`, the audiences that tokens must name."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec


class TokenIssuer(msgspec.Struct, frozen=True, kw_only=True):
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


class AuthSettings(Protocol):
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


class ProtectedResource(msgspec.Struct, frozen=True):
    """What this server is called by tokens: one name that the settings give, or its public URL and what is below it."""

    public_url: str | None = None
    explicit: str | None = None

    @property
    def audiences(self) -> frozenset[str]:
        """Every name that means this server."""
        if self.explicit is not None:
            return frozenset({self.explicit})
        if self.public_url is None:
            return frozenset()
        return frozenset({self.public_url, f"{self.public_url}/", f"{self.public_url}/mcp"})

    def identifier(self, path: str) -> str | None:
        """What is served at a path, the root having none."""
        return self.explicit or (None if self.public_url is None else f"{self.public_url}{path}")


def protected_resource(settings: AuthSettings) -> ProtectedResource:
    """What this server is called."""
    public = None if settings.public_url is None else settings.public_url.rstrip("/")
    return ProtectedResource(public, settings.resource)
