"""ClientIdentities: who the hall is at the authorization server of an upstream.

In this order: what the operator configured for that issuer; the document that describes the hall as a client
(`client_document`), if the server takes such; what the server gave the hall when it registered (RFC 7591). A
registration is kept in the store of accounts, encrypted, as a row without a user, so all processes share it.
"""

import re
import secrets
from collections.abc import Callable, Mapping

import msgspec

from toolhall.concurrency import SingleFlight, StillRunning
from toolhall.model.json import JsonObject
from toolhall.model.names import matches_any
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.oauth.authorization_code import CALLBACK_PATH, issuer_digest, redirect_path
from toolhall.oauth.client import OAuthClient
from toolhall.oauth.providers import (
    DiscoveryFailed,
    Endpoints,
    Provider,
    ProviderRefused,
    ProviderUnreachable,
    TokenAuth,
    is_safe_url,
)
from toolhall.oauth.token_encryption import TokenEncryption
from toolhall.stores.accounts import NEW, Account, AccountStore

CLIENT_DOCUMENT_PATH = "/oauth/client.json"
CLIENT_DOCUMENTS_PATH = "/oauth/client/"  # one for each issuer that has a redirect URI of its own
NO_USER = ""  # the user of rows that are registrations
_ISSUER_DIGEST = re.compile(r"[0-9a-f]{16}")
_REGISTRATION_PREFIX = "client:"
_MAX_CLIENT_ID = 2_048
_MAX_SECRET = 4_096
_REGISTER_SECONDS = 15.0
_GRANTS = ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"]
_AUTH_NAMES: dict[TokenAuth, str] = {
    "basic": "client_secret_basic",
    "post": "client_secret_post",
    "none": "none",
    "private_key_jwt": "private_key_jwt",
}
_REGISTERED_AUTHS: tuple[TokenAuth, ...] = ("basic", "post", "none")  # a registration brings no key


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What an authorization server calls the hall, and how the hall proves it."""

    client_id: str
    client_secret: Secret | None
    token_auth: TokenAuth
    client_key: Secret | None = None
    callback: str  # the end of the redirect path, where the issuer has one of its own


class _RegistrationPayload(msgspec.Struct, frozen=True):
    """The JSON form of a registration before encryption."""

    client_id: str
    client_secret: str | None
    token_auth: TokenAuth
    redirect_uri: str

    def __repr__(self) -> str:
        return "<registration>"


_payload_decoder = msgspec.json.Decoder(_RegistrationPayload)


class ClientIdentities:
    """Finds the hall's identity at an issuer, and registers the hall where there is none."""

    def __init__(
        self,
        configured: Mapping[str, Provider],
        client: OAuthClient,
        encryption: TokenEncryption,
        store: Callable[[], AccountStore],
        base_url: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._configured = configured
        self._client = client
        self._encryption = encryption
        self._store = store
        self._base_url = base_url
        self._clock = clock
        self._flights: SingleFlight[str, ClientIdentity] = SingleFlight()

    def configured(self, issuer: str, upstream: str) -> Provider | None:
        """Return the configured provider of an issuer whose client this upstream may use."""
        same = [each for each in self._configured.values() if each.issuer == issuer]
        return next((each for each in same if matches_any(each.upstreams, upstream)), None)

    async def find(self, issuer: str, endpoints: Endpoints, upstream: str) -> ClientIdentity:
        """Return the hall's identity for people's accounts; raises DiscoveryFailed or ProviderUnreachable."""
        provider = self.configured(issuer, upstream)
        if provider is not None:
            return ClientIdentity(
                client_id=provider.client_id,
                client_secret=provider.client_secret,
                token_auth=provider.token_auth or endpoints.token_auth,
                client_key=provider.client_key,
                callback=provider.name,
            )
        callback = issuer_digest(issuer)
        path = redirect_path(callback, endpoints)
        redirect_uri = f"{self._base_url()}{path}"
        if endpoints.client_documents and _takes_public_clients(endpoints) and redirect_uri.startswith("https://"):
            document = f"{self._base_url()}{document_path(path)}"
            auth: TokenAuth = "none"
            return ClientIdentity(client_id=document, client_secret=None, token_auth=auth, callback=callback)
        if endpoints.register_url is None or not is_safe_url(redirect_uri):
            raise DiscoveryFailed(self._not_registered(issuer, redirect_uri, upstream))
        try:
            return await self._flights.run(
                issuer, lambda: self._registered(issuer, endpoints, redirect_uri, upstream), _REGISTER_SECONDS
            )
        except StillRunning:
            raise ProviderUnreachable("the registration at the authorization server takes too long") from None

    async def forget(self, issuer: str, client_id: str) -> None:
        """Forget a registration that the issuer refuses: the next link registers again."""
        row = await self._row(issuer)
        payload = None if row is None else await self._opened(row)
        if row is not None and (payload is None or payload.client_id == client_id):
            await self._store().remove(row.id)

    async def close(self) -> None:
        """Wait for running registrations: the server would keep them, and the hall would not."""
        await self._flights.close()

    async def _registered(self, issuer: str, endpoints: Endpoints, redirect_uri: str, upstream: str) -> ClientIdentity:
        row = await self._row(issuer)
        payload = None if row is None else await self._opened(row)
        is_over = row is not None and row.expires_at is not None and row.expires_at <= self._clock()
        if payload is None or is_over or payload.redirect_uri != redirect_uri:
            payload = await self._register(issuer, endpoints, redirect_uri, upstream, row)
        return ClientIdentity(
            client_id=payload.client_id,
            client_secret=None if payload.client_secret is None else Secret(payload.client_secret),
            token_auth=payload.token_auth,
            callback=issuer_digest(issuer),
        )

    async def _register(
        self, issuer: str, endpoints: Endpoints, redirect_uri: str, upstream: str, row: Account | None
    ) -> _RegistrationPayload:
        auth = _wanted_auth(endpoints)
        wanted: JsonObject = client_metadata(self._base_url(), redirect_uri, _AUTH_NAMES[auth])
        try:
            reply = await self._client.register(endpoints.register_url or "", wanted)
        except ProviderRefused:
            raise DiscoveryFailed(self._not_registered(issuer, redirect_uri, upstream)) from None
        payload = _read_registration(reply, auth, redirect_uri)
        account = Account(
            id=secrets.token_hex(12) if row is None else row.id,
            user=NO_USER,
            provider=_row_name(issuer),
            issuer=issuer,
            scopes=(),
            sealed=b"",
            expires_at=_secret_expiry(reply),
            created_at=self._clock(),
        )
        sealed = await self._encryption.with_payload(account, msgspec.json.encode(payload))
        if await self._store().save(sealed, NEW if row is None else row.serial) is None:
            other = await self._row(issuer)  # another process was faster
            return (None if other is None else await self._opened(other)) or payload
        return payload

    async def _row(self, issuer: str) -> Account | None:
        return await self._store().find(NO_USER, _row_name(issuer))

    async def _opened(self, row: Account) -> _RegistrationPayload | None:
        plain = await self._encryption.decrypt_payload(row)
        return None if plain is None else _payload_decoder.decode(plain)

    def _not_registered(self, issuer: str, redirect_uri: str, upstream: str) -> str:
        """What to do where the hall cannot register by itself."""
        name = next((name for name, each in self._configured.items() if each.issuer == issuer), None)
        if name is not None:
            return (
                f"the provider {name} is configured for {issuer}: let this upstream use it with"
                f' upstreams = ["{upstream}"] in [providers.{name}]; its tokens are then sent to the upstream'
            )
        way = "registers no clients by itself" if is_safe_url(redirect_uri) else "is reached over https only"
        return (
            f"the authorization server {issuer} {way}: register this hall there with the redirect address"
            f' {redirect_uri}, then add [providers.{upstream}] with issuer = "{issuer}", client_id, client_secret and'
            f' upstreams = ["{upstream}"]'
        )


def is_registration(account: Account) -> bool:
    """Return whether a row of the account store is a registration of the hall, not an account of a person."""
    return account.user == NO_USER


def document_path(callback_path: str) -> str:
    """Return the path of the client document with this redirect path."""
    digest = callback_path.removeprefix(CALLBACK_PATH).removeprefix("/")
    return f"{CLIENT_DOCUMENTS_PATH}{digest}.json" if digest else CLIENT_DOCUMENT_PATH


def client_document(base_url: str, path: str) -> JsonObject | None:
    """Return the metadata of the hall as a client at this path, None for no such; its URL is the client's id."""
    if path == CLIENT_DOCUMENT_PATH:
        redirect = CALLBACK_PATH
    else:
        digest = path.removeprefix(CLIENT_DOCUMENTS_PATH).removesuffix(".json")
        if path != f"{CLIENT_DOCUMENTS_PATH}{digest}.json" or not _ISSUER_DIGEST.fullmatch(digest):
            return None
        redirect = f"{CALLBACK_PATH}/{digest}"
    return {"client_id": f"{base_url}{path}", **client_metadata(base_url, f"{base_url}{redirect}", "none")}


def client_metadata(base_url: str, redirect_uri: str, auth: str) -> JsonObject:
    """Return what an authorization server is told of the hall (RFC 7591, 2)."""
    return {
        "client_name": "Toolhall",
        "client_uri": base_url,
        "redirect_uris": [redirect_uri],
        "grant_types": [*_GRANTS],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth,
        "application_type": "web" if redirect_uri.startswith("https://") else "native",
    }


def _takes_public_clients(endpoints: Endpoints) -> bool:
    return not endpoints.auth_methods or "none" in endpoints.auth_methods


def _wanted_auth(endpoints: Endpoints) -> TokenAuth:
    """Return how the hall will prove itself: with a secret where that is possible."""
    listed = endpoints.auth_methods or (_AUTH_NAMES[endpoints.token_auth],)
    return _first_auth(lambda name: name in listed, "basic")


def _first_auth(fits: Callable[[str], bool], otherwise: TokenAuth) -> TokenAuth:
    for auth in _REGISTERED_AUTHS:
        if fits(_AUTH_NAMES[auth]):
            return auth
    return otherwise


def _read_registration(reply: JsonObject, wanted: TokenAuth, redirect_uri: str) -> _RegistrationPayload:
    """Read the answer of a registration; raises ProviderUnreachable."""
    client_id, secret = reply.get("client_id"), reply.get("client_secret")
    if not isinstance(client_id, str) or not 0 < len(client_id) <= _MAX_CLIENT_ID or not client_id.isprintable():
        raise ProviderUnreachable("the authorization server registered the hall without a client_id")
    if secret is not None and (not isinstance(secret, str) or not MIN_SECRET_LENGTH <= len(secret) <= _MAX_SECRET):
        raise ProviderUnreachable("the authorization server registered the hall with no sensible client_secret")
    stated = reply.get("token_endpoint_auth_method")
    auth = _first_auth(lambda name: name == stated, wanted)
    return _RegistrationPayload(client_id, secret, "none" if secret is None else auth, redirect_uri)


def _secret_expiry(reply: JsonObject) -> float | None:
    expires = reply.get("client_secret_expires_at")
    is_time = isinstance(expires, int) and not isinstance(expires, bool) and 0 < expires < 10**11
    return float(expires) if is_time and isinstance(expires, int) else None


def _row_name(issuer: str) -> str:
    return f"{_REGISTRATION_PREFIX}{issuer_digest(issuer)}"
