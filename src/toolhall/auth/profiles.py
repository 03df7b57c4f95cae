"""The `local` and `server` authentication profiles, and `build_authenticator`, which picks one by the settings.

`LocalAuthenticator`: a connection from this machine is the local user unless it sends an API key; proxied requests
are anonymous. `ServerAuthenticator`: every request needs a credential, except to the public paths. Token
verification (httpx2, joserfc) is imported only if issuers or an OXP secret are configured.
"""

from collections.abc import Callable, Collection
from functools import partial

from toolhall.auth.authenticator import (
    FORWARDING_HEADERS,
    LOOPBACK,
    AuthResult,
    AuthSettings,
    Headers,
    IssuerSettings,
    Scope,
    TokenIssuer,
    anonymous_caller,
    client_address,
    is_loopback,
    missing_credential,
    protected_resource,
)
from toolhall.auth.credentials import (
    AUTHORIZATION_HEADER,
    OXP_KEY_HEADER,
    OXP_PREFIX,
    CredentialVerifier,
    TokenVerifier,
    is_api_key,
    mentions_api_key,
    read_api_key,
    read_credential,
)
from toolhall.model.caller import LOCAL, Caller
from toolhall.stores.access import KeyRing

PUBLIC_PATHS = frozenset(
    {
        "/",
        "/console",
        "/health",
        "/health/live",
        "/health/ready",
        "/oauth/callback",
        "/oauth/client.json",
        "/oxp/health",
        "/sign-in",
        "/sign-out",
    }
)
# Metadata that a client needs before it has a credential, and pages, which have a sign-in of their own.
PUBLIC_PREFIXES = (
    "/.well-known/",
    "/approve/",
    "/connect/",
    "/console/",
    "/enroll/",
    "/oauth/callback/",
    "/oauth/client/",
    "/sign-in/",
)
MESSAGE_PATH = "/machine"  # the credential may be in the message
MIN_SECRET_BYTES = 32
METRICS_PATH = "/metrics"
_RESERVED_NAMES = ("local", "anonymous", "oxp")


class LocalAuthenticator:
    """The `local` profile: a connection from this machine is the local user, unless it sends a credential."""

    def __init__(self, verifier: CredentialVerifier | None = None) -> None:
        self._verifier = verifier
        self._accepts_tokens = verifier is not None and verifier.accepts_tokens

    def authenticate(self, scope: Scope, headers: Headers) -> AuthResult:
        """Authenticate by the credential, else by the address; a Unix socket is local.

        Requests with forwarding headers came through a proxy and are anonymous.
        """
        caller = self.local_caller(scope, headers)
        if caller is not None:
            return caller
        credential = read_credential(headers, scope["path"]) if self._has_credential(headers) else None
        if credential is None or self._verifier is None:
            return _caller_by_address(scope, headers)
        return self._verifier.verify(credential, scope)

    def local_caller(self, scope: Scope, headers: Headers) -> Caller | None:
        """Return the local user if the connection alone proves it and no credential has to be verified; else None."""
        client = scope.get("client")
        is_local = client is not None and client[0] == LOOPBACK and FORWARDING_HEADERS.isdisjoint(headers)
        if not is_local and not _caller_by_address(scope, headers).local:
            return None
        if not self._has_credential(headers):
            return LOCAL
        # OXP 1.0 ignores a credential where none is needed. So do the other paths, unless a key or an issuer could
        # have made it: many clients always send one.
        is_oxp = scope["path"].startswith(OXP_PREFIX)
        return LOCAL if not mentions_api_key(headers) and (not self._accepts_tokens or is_oxp) else None

    def prepare(self, scope: Scope, headers: Headers) -> Callable[[], AuthResult]:
        """Return a function that authenticates requests with this head."""
        if self._verifier is not None and self.local_caller(scope, headers) is None and self._has_credential(headers):
            key = read_api_key(headers, scope["path"])
            if key is not None:
                return self._verifier.prepare_key(key, scope)
        return partial(self.authenticate, scope, headers)

    def _has_credential(self, headers: Headers) -> bool:
        return self._verifier is not None and (AUTHORIZATION_HEADER in headers or OXP_KEY_HEADER in headers)

    def authenticate_message(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> AuthResult:
        """Return the token's caller or the connection's; of a local connection, only an API key changes the caller."""
        if token is None or self._verifier is None or (caller.local and not is_api_key(token)):
            return caller
        return self._verifier.verify_message_token(token, scope, headers) or caller


def _caller_by_address(scope: Scope, headers: Headers) -> Caller:
    return (
        LOCAL
        if is_loopback(client_address(scope)) and FORWARDING_HEADERS.isdisjoint(headers)
        else anonymous_caller(scope)
    )


class ServerAuthenticator:
    """The `server` profile: addresses prove nothing; `allow_anonymous` serves tools of level 0 to anybody."""

    def __init__(
        self, verifier: CredentialVerifier, *, allow_anonymous: bool = False, public_paths: Collection[str] = ()
    ) -> None:
        self._verifier = verifier
        self._allow_anonymous = allow_anonymous
        self._public_paths = PUBLIC_PATHS.union(public_paths)

    def authenticate(self, scope: Scope, headers: Headers) -> AuthResult:
        """Authenticate by the credential in the headers; public paths are served anonymously without one."""
        path = scope["path"]
        credential = read_credential(headers, path)
        if credential is not None:
            return self._verifier.verify(credential, scope)
        if self._allow_anonymous or path in self._public_paths or path.startswith(PUBLIC_PREFIXES):
            return anonymous_caller(scope)
        if path == MESSAGE_PATH and scope.get("method") == "POST":
            return anonymous_caller(scope)
        raise missing_credential()

    def local_caller(self, scope: Scope, headers: Headers) -> Caller | None:  # noqa: ARG002 - addresses prove nothing
        """Return None: a connection proves nothing here."""
        return None

    def prepare(self, scope: Scope, headers: Headers) -> Callable[[], AuthResult]:
        """Return a function that authenticates requests with this head."""
        key = read_api_key(headers, scope["path"])
        if key is not None:
            return self._verifier.prepare_key(key, scope)
        return partial(self.authenticate, scope, headers)

    def authenticate_message(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> AuthResult:
        """Return the caller of the token, which must equal the credential of the headers if there are both."""
        if token is not None:
            return self._verifier.verify_message_token(token, scope, headers) or caller
        if caller.proof == "none" and not self._allow_anonymous:
            raise missing_credential()
        return caller


class BadAuthSettings(ValueError):
    """An authentication setting that cannot work; the message names it and the fix."""


def build_authenticator(
    settings: AuthSettings, keys: KeyRing, clock: Callable[[], float]
) -> LocalAuthenticator | ServerAuthenticator:
    """Return the authenticator of the settings' profile; BadAuthSettings for settings that cannot work."""
    audiences = protected_resource(settings).audiences
    issuers = tuple(map(_token_issuer, settings.issuers))
    _check_settings(issuers, settings.oxp_secret)
    if issuers and not audiences:
        raise BadAuthSettings("'issuers' need to know what this server is called; set 'public_url' (or 'resource')")
    tokens: TokenVerifier | None = None
    oxp: TokenVerifier | None = None
    if issuers:
        from toolhall.auth.key_sets import JsonFetcher  # lazy: httpx2 and joserfc
        from toolhall.auth.tokens import IssuedTokenVerifier  # lazy: joserfc

        fetch = JsonFetcher(issuers, settings.egress_allow)
        tokens = IssuedTokenVerifier(issuers, audiences, fetch, clock)
    if settings.oxp_secret is not None:
        from toolhall.auth.tokens import SharedSecretVerifier  # lazy: joserfc

        oxp = SharedSecretVerifier(settings.oxp_secret, audiences, clock)
    verifier = CredentialVerifier(keys, clock, tokens=tokens, oxp=oxp)
    if settings.profile == "local":
        return LocalAuthenticator(verifier)
    public = [METRICS_PATH] if settings.public_metrics else []
    return ServerAuthenticator(verifier, allow_anonymous=settings.allow_anonymous, public_paths=public)


def _token_issuer(settings: IssuerSettings) -> TokenIssuer:
    audience = getattr(settings, "audience", None)
    return TokenIssuer(name=settings.name, issuer=settings.issuer, jwks_url=settings.jwks_url, audience=audience)


def _check_settings(issuers: tuple[TokenIssuer, ...], secret: str | None) -> None:
    names = [each.name for each in issuers]
    for each in issuers:
        from toolhall.auth.key_sets import is_safe_url  # lazy: httpx2, which a hall without issuers does not need

        if each.name in _RESERVED_NAMES or names.count(each.name) > 1:
            raise BadAuthSettings(f"issuers: the name {each.name!r} is taken; give each issuer a name of its own")
        for url in filter(None, (each.issuer, each.jwks_url)):
            if not is_safe_url(url):
                raise BadAuthSettings(f"issuers: {url} must be an https URL")
    if len({each.issuer for each in issuers}) != len(issuers):
        raise BadAuthSettings("issuers: two have the same URL; leave out one")
    if secret is not None and len(secret.encode()) < MIN_SECRET_BYTES:
        raise BadAuthSettings(
            f"'oxp_secret' must have {MIN_SECRET_BYTES} bytes or more; make one with 'openssl rand -base64 33'"
        )
