"""OAuthClient: requests to a provider's endpoints, which ProviderDiscovery finds by its issuer.

The client builds the forms, authenticates and parses the responses of code exchange, refresh, device authorization (RFC
8628) and revocation (RFC 7009). Responses are bounded in size and time, and no text of a response gets into an error
message: it may hold tokens. Discovery caches the metadata of issuers (RFC 8414, OpenID Connect).
"""

import base64
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote_plus, urlsplit

import msgspec

from toolhall.dialects import strict_json
from toolhall.egress.addresses import EgressFailed, EgressRefused
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.oauth.authorization_code import PendingAuthorization
from toolhall.oauth.providers import (
    Endpoints,
    Provider,
    ProviderRefused,
    ProviderUnreachable,
    TokenAuth,
    is_allowed_endpoint,
    is_safe_url,
)

if TYPE_CHECKING:
    from toolhall.egress.client import EgressResponse

MAX_RESPONSE_BYTES = 64 * 1024
REQUEST_TIMEOUT_SECONDS = 5.0
_TEMPORARY_ERRORS = ("server_error", "temporarily_unavailable")  # the provider's own failure
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_MAX_TOKEN_LENGTH = 16_384
_MAX_LIFETIME_SECONDS = 10 * 365 * 86_400.0
_BEARER = ("bearer", "user", "bot")  # the last two are Slack's
_SEPARATORS = re.compile(r"[ ,]+")  # GitHub and Slack use commas
_USER_CODE = re.compile(r"[A-Za-z0-9 -]{4,32}")
_MAX_INTERVAL = 60.0
FormFields = dict[str, str]
CACHE_SECONDS = 3_600.0
STALE_SECONDS = 60.0  # cached endpoints stay valid for so long while the issuer is asked again, or does not answer
_AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_ENDPOINT_MEMBERS = {
    "authorize_url": "authorization_endpoint",
    "token_url": "token_endpoint",
    "revoke_url": "revocation_endpoint",
    "device_url": "device_authorization_endpoint",
}


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a response, and the scopes that were both requested and granted."""

    access: Secret
    refresh: Secret | None
    expires_at: float | None
    scopes: tuple[str, ...]


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """A device authorization (RFC 8628): what the person enters and where; the hall polls with `device_code`."""

    device_code: Secret
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    interval: float
    expires_in: float


class HttpFetcher(Protocol):
    """The part of EgressClient and LazyEgressClient that is used here."""

    @property
    def fetch(self) -> "Callable[..., Awaitable[EgressResponse]]":
        """Send one request and return the whole response; raises EgressRefused or EgressFailed."""
        ...


class OAuthClient:
    """Sends requests to providers; of a response, only OAuth error codes get into messages."""

    def __init__(self, egress: HttpFetcher) -> None:
        self._egress = egress

    async def get_document(self, url: str) -> JsonObject | None:
        """Return the JSON object at a URL, None for a 4xx status; raises ProviderUnreachable."""
        reply = await self._fetch("GET", url, {"accept": "application/json"})
        if 400 <= reply.status < 500:
            return None
        if reply.status != 200:
            raise ProviderUnreachable(f"status {reply.status}; redirects are not followed")
        return _json_object(reply)

    async def post_form(
        self,
        provider: Provider,
        endpoints: Endpoints,
        url: str,
        form: FormFields,
        seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> JsonObject:
        """Post a form and return the response; raises ProviderRefused for an OAuth error, else ProviderUnreachable."""
        headers, fields = with_client_auth(provider, endpoints.token_auth, form)
        reply = await self._fetch("POST", url, headers, fields, as_json=provider.preset.json, seconds=seconds)
        if reply.status >= 500 or reply.status == 429 or 300 <= reply.status < 400:
            raise ProviderUnreachable(f"{provider.name} answers with status {reply.status}")
        document = _json_object(reply)
        error = document.get("error")  # GitHub and Slack send errors with status 200
        if error in _TEMPORARY_ERRORS:
            raise ProviderUnreachable(f"{provider.name} is not available")
        if error is not None:
            raise ProviderRefused(error)
        if reply.status >= 400:
            raise ProviderUnreachable(f"{provider.name} answers with status {reply.status}")
        return document

    async def revoke(self, provider: Provider, endpoints: Endpoints, token: Secret, kind: str) -> None:
        """Revoke a token (RFC 7009): status 200 is success, whatever the body; raises ProviderUnreachable."""
        if endpoints.revoke_url is None:
            raise ProviderUnreachable(f"{provider.name} has no address to revoke tokens at")
        headers, fields = with_client_auth(provider, endpoints.token_auth, revoke_form(token, kind))
        reply = await self._fetch("POST", endpoints.revoke_url, headers, fields, as_json=provider.preset.json)
        if reply.status != 200:
            raise ProviderUnreachable(f"{provider.name} answers with status {reply.status}")

    async def _fetch(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        fields: FormFields | None = None,
        *,
        as_json: bool = False,
        seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> "EgressResponse":
        try:
            return await self._egress.fetch(
                method,
                url,
                headers=headers,
                form=None if as_json else fields,
                json=fields if as_json else None,
                max_bytes=MAX_RESPONSE_BYTES,
                seconds=seconds,
            )
        except (EgressRefused, EgressFailed) as error:
            raise ProviderUnreachable(str(error)) from None


def code_form(attempt: PendingAuthorization, code: Secret) -> FormFields:
    """The form that exchanges a code for tokens, with the PKCE verifier."""
    return {
        "grant_type": "authorization_code",
        "code": code.reveal(),
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier.reveal(),
        **_resource_field(attempt.resource),
    }


def refresh_form(provider: Provider, refresh: Secret) -> FormFields:
    """The form that refreshes tokens."""
    return {"grant_type": "refresh_token", "refresh_token": refresh.reveal(), **_resource_field(provider.resource)}


def device_form(provider: Provider, scopes: tuple[str, ...]) -> FormFields:
    """The form that requests a device code (RFC 8628)."""
    return {"client_id": provider.client_id, "scope": " ".join(scopes), **_resource_field(provider.resource)}


def device_poll_form(device_code: Secret) -> FormFields:
    """The form that polls for the tokens of a device code (RFC 8628)."""
    return {"grant_type": DEVICE_GRANT, "device_code": device_code.reveal()}


def revoke_form(token: Secret, kind: str) -> FormFields:
    """The form that revokes a token (RFC 7009)."""
    return {"token": token.reveal(), "token_type_hint": kind}


def with_client_auth(provider: Provider, auth: TokenAuth, form: FormFields) -> tuple[dict[str, str], FormFields]:
    """Return headers and form with the hall's client credentials, by the provider's authentication method."""
    headers = {"accept": "application/json", **provider.preset.headers}
    secret = provider.client_secret
    if auth == "basic" and secret is not None:
        pair = f"{quote_plus(provider.client_id)}:{quote_plus(secret.reveal())}"  # RFC 6749, 2.3.1
        return headers | {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, form
    fields = form | {"client_id": provider.client_id}
    if auth == "post" and secret is not None:
        fields["client_secret"] = secret.reveal()
    return headers, fields


def _resource_field(resource: str | None) -> FormFields:
    return {} if resource is None else {"resource": resource}


def parse_token_response(
    reply: JsonObject, provider: Provider, requested: tuple[str, ...], now: float
) -> TokenResponse:
    """Parse a token response; raises ProviderUnreachable.

    A scope that was not requested is dropped even if the provider grants it: no person has consented to it.
    """
    kind = reply.get("token_type", "bearer")
    if not isinstance(kind, str) or kind.lower() not in _BEARER:
        raise ProviderUnreachable("the tokens are not bearer tokens")
    access = _token(reply, "access_token")
    if access is None:
        raise ProviderUnreachable("there is no access token in the answer")
    seconds = _seconds(reply, "expires_in")
    return TokenResponse(
        access=access,
        refresh=_token(reply, "refresh_token"),
        expires_at=None if seconds is None else now + seconds,
        scopes=_granted_scopes(reply.get("scope"), provider, requested),
    )


def parse_device_response(reply: JsonObject) -> DeviceCode:
    """Parse a device authorization response; raises ProviderUnreachable, also for an unsafe verification URL."""
    device_code, user_code = _token(reply, "device_code"), reply.get("user_code")
    url, complete_url = (
        reply.get("verification_uri", reply.get("verification_url")),
        reply.get("verification_uri_complete"),
    )
    if device_code is None or not isinstance(user_code, str) or not _USER_CODE.fullmatch(user_code):
        raise ProviderUnreachable("there is no device code in the answer")
    if not isinstance(url, str) or not is_safe_url(url):
        raise ProviderUnreachable("the verification address is not an https URL")
    return DeviceCode(
        device_code=device_code,
        user_code=user_code,
        verification_uri=url,
        verification_uri_complete=complete_url if isinstance(complete_url, str) and is_safe_url(complete_url) else None,
        interval=min(_seconds(reply, "interval") or 5.0, _MAX_INTERVAL),
        expires_in=_seconds(reply, "expires_in") or 600.0,
    )


def _granted_scopes(stated: Json, provider: Provider, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Return the granted scopes; a response without scopes grants the requested ones (RFC 6749, 5.1)."""
    if stated is None or stated == "":
        return requested
    if not isinstance(stated, str):
        raise ProviderUnreachable("the scopes in the answer are no text")
    missing = set(provider.missing_scopes(tuple(_SEPARATORS.split(stated)), requested))
    return tuple(each for each in requested if each not in missing)


def _token(reply: Mapping[str, Json], name: str) -> Secret | None:
    value = reply.get(name)
    if value is None:
        return None
    # It will be sent in a header: RFC 6750 allows printable characters only.
    if not isinstance(value, str) or not MIN_SECRET_LENGTH <= len(value) <= _MAX_TOKEN_LENGTH:
        raise ProviderUnreachable(f"{name} is no text of a sensible length")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ProviderUnreachable(f"{name} holds characters that no token has")
    return Secret(value)


def _seconds(reply: Mapping[str, Json], name: str) -> float | None:
    value = reply.get(name)
    if value is None:
        return None
    try:
        seconds = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ProviderUnreachable(f"{name} is no number of seconds")
    return min(seconds, _MAX_LIFETIME_SECONDS)


def _json_object(reply: "EgressResponse") -> JsonObject:
    try:
        found = strict_json.decode(reply.body)
    except Malformed:  # its message may quote the body
        raise ProviderUnreachable(f"the answer (status {reply.status}) is not JSON") from None
    if not isinstance(found, dict):
        raise ProviderUnreachable(f"the answer (status {reply.status}) is no JSON object")
    return found


class ProviderDiscovery:
    """Fetches the metadata of issuers and caches it for an hour; expired endpoints are used if a fetch fails."""

    def __init__(self, client: OAuthClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._cache: dict[str, tuple[float, Endpoints]] = {}

    async def endpoints(self, provider: Provider) -> Endpoints:
        """Return the provider's endpoints; raises ProviderUnreachable if they are not known."""
        if provider.endpoints is not None:
            return provider.endpoints
        until, known = self._cache.get(provider.name, (0.0, None))
        if known is not None and self._clock() < until:
            return known
        if known is not None:
            self._cache[provider.name] = (self._clock() + STALE_SECONDS, known)
        try:
            document = await self._document(provider)
        except ProviderUnreachable:
            if known is None:
                raise
            return known  # an issuer that does not answer has not changed its endpoints
        found = read_metadata(document, provider)
        self._cache[provider.name] = (self._clock() + CACHE_SECONDS, found)
        return found

    async def _document(self, provider: Provider) -> JsonObject:
        for url in metadata_urls(provider.issuer or ""):
            document = await self._client.get_document(url)
            if document is not None:
                return document
        raise ProviderUnreachable(
            f"the issuer of {provider.name} publishes no metadata; set authorize_url and token_url"
        )


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return the URLs at which an issuer may publish its metadata, in the order of trying."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = (f"{origin}{_AUTHORIZATION_SERVER}{path}", f"{origin}{_OPENID}{path}", f"{origin}{path}{_OPENID}")
    return tuple(dict.fromkeys(urls))


def read_metadata(document: JsonObject, provider: Provider) -> Endpoints:
    """Read the endpoints; raises ProviderUnreachable for another issuer, or one without PKCE by S256."""
    if document.get("issuer") != provider.issuer:
        raise ProviderUnreachable(
            f"the metadata of {provider.name} names another issuer than the settings, byte for byte"
        )
    methods = document.get("code_challenge_methods_supported")
    if not isinstance(methods, list) or "S256" not in methods:
        raise ProviderUnreachable(
            f"{provider.name} does not say that it supports PKCE with S256; it is not used without"
        )
    urls = {ours: _endpoint(document, theirs, provider) for ours, theirs in _ENDPOINT_MEMBERS.items()}
    found = Endpoints(
        authorize_url=urls["authorize_url"] or "",
        token_url=urls["token_url"] or "",
        revoke_url=urls["revoke_url"],
        device_url=urls["device_url"],
        token_auth=provider.token_auth or _token_auth_method(document.get("token_endpoint_auth_methods_supported")),
        sends_iss=document.get("authorization_response_iss_parameter_supported") is True,
    )
    if not found.authorize_url or not found.token_url:
        raise ProviderUnreachable(f"the metadata of {provider.name} names no authorization and token endpoint")
    return found


def _endpoint(document: JsonObject, name: str, provider: Provider) -> str | None:
    url = document.get(name)
    if url is None:
        return None
    if not isinstance(url, str) or not is_allowed_endpoint(provider.issuer or "", url):
        raise ProviderUnreachable(
            f"{name} in the metadata of {provider.name} is not a public https URL, nor at the issuer"
            "; if it is right, set authorize_url and token_url"
        )
    return url


def _token_auth_method(methods: Json) -> TokenAuth:
    """Return the client authentication method; without metadata it is basic (RFC 8414)."""
    listed = methods if isinstance(methods, list) else []
    return "post" if "client_secret_post" in listed and "client_secret_basic" not in listed else "basic"
