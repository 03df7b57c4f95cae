"""Settings protocols of authentication, `TokenIssuer`, and `ProtectedResource`, the audiences that tokens must name."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec


class TokenIssuer(msgspec.Struct, frozen=True, kw_only=True):
    """An issuer whose tokens are accepted; the ids of its callers begin with `name`."""

    name: str
    issuer: str
    jwks_url: str | None = None  # None: from its discovery document
    audience: str | None = None  # None: this server's own resource


class IssuerSettings(Protocol):
    """An issuer as the configuration has it."""

    @property
    def name(self) -> str:
        """The prefix of its callers' ids."""
        ...

    @property
    def issuer(self) -> str:
        """Its URL, exactly as in the `iss` claim."""
        ...

    @property
    def jwks_url(self) -> str | None:
        """The URL of its key set; None to discover it."""
        ...


class AuthSettings(Protocol):
    """The settings of authentication; `Config`, which lies in a higher layer, has them."""

    @property
    def profile(self) -> Literal["local", "server"]:
        """`local`: connections from this machine are the local user; `server`: they prove nothing."""
        ...

    @property
    def public_url(self) -> str | None:
        """The URL by which clients reach this server."""
        ...

    @property
    def resource(self) -> str | None:
        """The audience that tokens must name; the public URL by default."""
        ...

    @property
    def issuers(self) -> Sequence[IssuerSettings]:
        """The accepted token issuers."""
        ...

    @property
    def oxp_secret(self) -> str | None:
        """The secret with which OXP clients sign their tokens."""
        ...

    @property
    def allow_anonymous(self) -> bool:
        """Whether anonymous callers may list and call tools of level 0."""
        ...

    @property
    def public_metrics(self) -> bool:
        """Whether `/metrics` needs no credential."""
        ...

    @property
    def egress_allow(self) -> Sequence[str]:
        """Private hosts that may be fetched from."""
        ...


class ProtectedResource(msgspec.Struct, frozen=True):
    """The resource identifiers of this server: the configured one, or those derived from the public URL."""

    public_url: str | None = None
    explicit: str | None = None

    @property
    def audiences(self) -> frozenset[str]:
        """Every audience that means this server."""
        if self.explicit is not None:
            return frozenset({self.explicit})
        if self.public_url is None:
            return frozenset()
        return frozenset({self.public_url, f"{self.public_url}/", f"{self.public_url}/mcp"})

    def identifier(self, path: str) -> str | None:
        """Return the resource identifier of a path (empty for the root); None without a public URL."""
        return self.explicit or (None if self.public_url is None else f"{self.public_url}{path}")


def protected_resource(settings: AuthSettings) -> ProtectedResource:
    """Return the resource identifiers of the settings."""
    public = None if settings.public_url is None else settings.public_url.rstrip("/")
    return ProtectedResource(public, settings.resource)
