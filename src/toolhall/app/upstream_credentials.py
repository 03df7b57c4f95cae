"""What upstreams are sent to be let in: `HallCredentials`; and which addresses they may be at: `dialer_for`.

A caller's own credential is never among it. A call carries what the equip stage resolved for it: the secrets that the
headers name (a user's own before the hall's) and the token of the account that the user linked with this upstream.
Without a call, for a handshake or a list, only what belongs to the hall is sent.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from ipaddress import IPv4Address
from typing import Protocol

from toolhall.config import Config
from toolhall.egress.addresses import EgressAllowlist, EgressRefused, allowlist_entry, is_loopback
from toolhall.egress.resolver import Dialer
from toolhall.egress.urls import parse_url
from toolhall.mcp_client.session import Headers
from toolhall.model.caller import Caller
from toolhall.model.errors import NeedsRequirement
from toolhall.model.messages import Call
from toolhall.model.requirements import MissingRequirement
from toolhall.model.secret import Secret
from toolhall.model.upstream import Upstream, fill_secrets
from toolhall.redaction.log_redaction import SECRETS_IN_USE

ACCOUNT_PREFIX = "upstream:"  # of the account requirement of an upstream, before its name
_LOOPBACK = IPv4Address("127.0.0.1")


class SecretReader(Protocol):
    """Returns stored secrets, as the vault does."""

    def get(self, name: str, user: str | None = None) -> Secret | None:
        """Return the user's own secret of this name, or else the hall's."""
        ...


class UpstreamAccounts(Protocol):
    """Gives the tokens by which the hall, or a user of it, is let into upstreams that want OAuth."""

    async def upstream_token(self, upstream: Upstream, user: str | None) -> Secret | None:
        """Return a valid token of the user, or of the hall itself; None if there is no such account."""
        ...

    async def renew_upstream_token(self, upstream: Upstream, user: str | None, challenge: str | None) -> bool:
        """Renew a token that the upstream refused, once for all who wait; whether there is a new one."""
        ...

    async def missing_upstream_account(
        self, upstream: Upstream, caller: Caller | None, challenge: str | None
    ) -> NeedsRequirement:
        """Return what says how an account is linked, with the scopes of the challenge."""
        ...


class HallCredentials:
    """The credentials of a hall's upstreams; what it hands out is redacted from the output of the process."""

    def __init__(self, secrets: SecretReader, accounts: Callable[[], UpstreamAccounts]) -> None:
        self._secrets = secrets
        self._accounts = accounts
        self._redacted: dict[str, tuple[Secret, ...]] = {}  # by upstream, what is registered for the process's output

    async def secret(self, name: str) -> Secret | None:
        """Return a secret of the hall."""
        return self._secrets.get(name)

    async def headers(self, upstream: Upstream, call: Call | None) -> Headers:
        """Return the fixed headers with their secrets, and the authorization by an account; raises NeedsRequirement."""
        settings = upstream.settings
        secrets = self._secrets_of_call(upstream, call)
        headers = tuple((name, fill_secrets(text, secrets)) for name, text in settings.headers.items())
        token = await self._token(upstream, call)
        return headers if token is None else (*headers, ("Authorization", f"Bearer {token.reveal()}"))

    def refresh(self, upstream: Upstream, call: Call | None, challenge: str | None) -> Awaitable[bool]:
        """Renew the token that the upstream refused."""
        user = None if call is None or upstream.settings.auth == "client_credentials" else call.caller.user
        return self._accounts().renew_upstream_token(upstream, user, challenge)

    async def missing(self, upstream: Upstream, call: Call | None, challenge: str | None) -> NeedsRequirement:
        """Return the error that says what a person has to link or to set."""
        return await self._accounts().missing_upstream_account(
            upstream, None if call is None else call.caller, challenge
        )

    def hidden(self, upstream: Upstream) -> tuple[Secret, ...]:
        """Return what must be redacted from all that the upstream sends: what its settings hold and its child is given.

        The secrets of its headers are not here: the equip stage resolves and redacts those.
        """
        given = (self._secrets.get(name) for name in upstream.settings.env_secrets)
        return (*upstream.settings.literal_secrets, *(secret for secret in given if secret is not None))

    def redact_output(self, upstreams: Mapping[str, Upstream]) -> None:
        """Redact the secrets of these upstreams from logs and from the output of child processes, and no others."""
        before, self._redacted = self._redacted, {name: self.hidden(each) for name, each in upstreams.items()}
        for secrets in self._redacted.values():
            SECRETS_IN_USE.acquire(secrets)
        for secrets in before.values():
            SECRETS_IN_USE.release(secrets)

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

    async def _token(self, upstream: Upstream, call: Call | None) -> Secret | None:
        if call is not None and call.credentials is not None:
            account = call.credentials.accounts.get(ACCOUNT_PREFIX + upstream.name)
            if account is not None:
                return account.token
        if upstream.settings.auth == "client_credentials":
            return await self._accounts().upstream_token(upstream, None)
        return None


def dialer_for(upstream: Upstream, config: Config) -> Dialer:
    """Return what connects to an upstream: to public addresses, and what `egress_allow` adds.

    In the profile `local`, a URL that the person at this machine typed may also lead to loopback: it is their own word.
    """
    own: Iterable[str] = ()
    if upstream.settings.url is not None and upstream.named_by_person and config.profile == "local":
        own = _loopback_entry(upstream.settings.url)
    return Dialer(EgressAllowlist((*config.egress_allow, *own)))


def _loopback_entry(url: str) -> tuple[str, ...]:
    """Return the entry of `egress_allow` for the host of this URL, if that is this machine."""
    try:
        parsed = parse_url(url, EgressAllowlist().with_address(_LOOPBACK))
    except EgressRefused:  # said by whoever connects
        return ()
    return (allowlist_entry(parsed.host, parsed.port, None),) if is_loopback(parsed.host) else ()
