"""What upstreams are sent to be let in: `HallCredentials`; and which addresses they may be at: `dialer_for`.

A caller's own credential is never among it. A call carries what the equip stage resolved for it: the secrets that the
headers name (a user's own before the hall's) and the token of the account that the user linked with this upstream.
Without a call, for a handshake or a list, only what belongs to the hall is sent.
"""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address
from typing import Protocol

from toolhall.config import Config
from toolhall.egress.addresses import EgressAllowlist, EgressRefused, allowlist_entry, is_loopback
from toolhall.egress.resolver import Dialer
from toolhall.egress.urls import parse_url
from toolhall.mcp_client.session import Headers
from toolhall.model.errors import NeedsRequirement, ToolhallError
from toolhall.model.messages import Call
from toolhall.model.requirements import MissingRequirement
from toolhall.model.secret import Secret
from toolhall.model.upstream import Upstream, fill_secrets
from toolhall.oauth.upstream_accounts import UpstreamAccounts
from toolhall.redaction.log_redaction import SECRETS_IN_USE

_LOOPBACK = IPv4Address("127.0.0.1")


class SecretReader(Protocol):
    """Returns stored secrets, as the vault does."""

    def get(self, name: str, user: str | None = None) -> Secret | None:
        """Return the user's own secret of this name, or else the hall's."""
        ...


class HallCredentials:
    """The credentials of a hall's upstreams; what it hands out is redacted from the output of the process.

    `on_challenge` is called with an upstream that was refused without a call, and returns what has to be done.
    """

    def __init__(
        self,
        secrets: SecretReader,
        accounts: Callable[[], UpstreamAccounts],
        on_challenge: Callable[[Upstream, str | None], Awaitable[NeedsRequirement]],
    ) -> None:
        self._secrets = secrets
        self._accounts = accounts
        self._on_challenge = on_challenge
        self._redacted: dict[str, tuple[Secret, ...]] = {}  # by upstream, what is registered for the process's output

    async def secret(self, name: str) -> Secret | None:
        """Return a secret of the hall."""
        return self._secrets.get(name)

    async def headers(self, upstream: Upstream, call: Call | None) -> Headers:
        """Return the fixed headers with their secrets, and the authorization by an account; raises NeedsRequirement."""
        settings = upstream.settings
        headers = self._fixed_headers(upstream, call) if settings.headers else ()
        if settings.auth not in ("oauth", "client_credentials"):
            return headers
        return (*headers, *await self._accounts().headers(upstream, call))

    async def refresh(self, upstream: Upstream, call: Call | None, challenge: str | None) -> bool:
        """Renew the token that the upstream refused, once for all who ask now."""
        if upstream.settings.auth not in ("oauth", "client_credentials"):
            return False
        return await self._accounts().refresh(upstream, call, challenge)

    def secrets(self, upstream: Upstream, call: Call | None) -> tuple[Secret, ...]:
        """Return the tokens that were sent and that the call was not equipped with: renewed, or the hall's own."""
        if upstream.settings.auth not in ("oauth", "client_credentials"):
            return ()
        return self._accounts().secrets(upstream, call)

    async def missing(self, upstream: Upstream, call: Call | None, challenge: str | None) -> ToolhallError:
        """Return the error that says what a person has to link or to set."""
        if call is None or upstream.settings.auth is None:
            return await self._on_challenge(upstream, challenge)
        return await self._accounts().refusal(upstream, call, challenge)

    def redact_output(self, upstreams: Mapping[str, Upstream]) -> None:
        """Redact the secrets of these upstreams from logs and from the output of child processes, and no others."""
        before, self._redacted = self._redacted, {name: self._own_secrets(each) for name, each in upstreams.items()}
        for secrets in self._redacted.values():
            SECRETS_IN_USE.acquire(secrets)
        for secrets in before.values():
            SECRETS_IN_USE.release(secrets)

    def _own_secrets(self, upstream: Upstream) -> tuple[Secret, ...]:
        """Return what the settings hold, and what an upstream is given: it may print or repeat that at any time."""
        settings = upstream.settings
        given = (self._secrets.get(name) for name in (*settings.env_secrets, *settings.header_secrets))
        return (*settings.literal_secrets, *(secret for secret in given if secret is not None))

    def _fixed_headers(self, upstream: Upstream, call: Call | None) -> Headers:
        secrets = self._secrets_of_call(upstream, call) if upstream.settings.header_secrets else {}
        return tuple((name, fill_secrets(text, secrets)) for name, text in upstream.settings.headers.items())

    def _secrets_of_call(self, upstream: Upstream, call: Call | None) -> Mapping[str, Secret]:
        if call is not None and call.credentials is not None:
            return call.credentials.secrets
        found = {name: self._secrets.get(name) for name in upstream.settings.header_secrets}
        missing = [name for name, secret in found.items() if secret is None]
        if missing:
            raise NeedsRequirement(
                f"the secret {missing[0]} has not been set: 'toolhall secret set {missing[0]}' does that",
                missing=[MissingRequirement("secret", name) for name in missing],
            )
        return {name: secret for name, secret in found.items() if secret is not None}


def dialer_for(upstream: Upstream, config: Config) -> Dialer:
    """Return what connects to an upstream: to public addresses, and what `egress_allow` adds."""
    return Dialer(EgressAllowlist((*config.egress_allow, *own_addresses(upstream, config))))


def own_addresses(upstream: Upstream, config: Config) -> tuple[str, ...]:
    """Return the address on loopback that the person at this machine named, in the profile `local`: their own word."""
    if upstream.settings.url is None or not upstream.named_by_person or config.profile != "local":
        return ()
    return _loopback_entry(upstream.settings.url)


def _loopback_entry(url: str) -> tuple[str, ...]:
    """Return the entry of `egress_allow` for the host of this URL, if that is this machine."""
    try:
        parsed = parse_url(url, EgressAllowlist().with_address(_LOOPBACK))
    except EgressRefused:  # said by whoever connects
        return ()
    return (allowlist_entry(parsed.host, parsed.port, None),) if is_loopback(parsed.host) else ()
