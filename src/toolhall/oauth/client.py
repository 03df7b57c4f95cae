"""OAuthClient: requests to a provider's endpoints, and to what its metadata names.

The client builds the forms, authenticates and parses the responses of code exchange, refresh, device authorization (RFC
8628), revocation (RFC 7009) and registration (RFC 7591). Responses are bounded in size and time, and no text of a
response gets into an error message: it may hold tokens.
"""

import base64
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote_plus

import msgspec

from toolhall.dialects import strict_json
from toolhall.egress.addresses import EgressFailed, EgressRefused
from toolhall.egress.urls import display_url
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.oauth.authorization_code import PendingAuthorization
from toolhall.oauth.providers import (
    AddressRefused,
    Endpoints,
    Provider,
    ProviderRefused,
    ProviderUnreachable,
    TokenAuth,
    is_safe_url,
)

if TYPE_CHECKING:
    from toolhall.egress.client import EgressResponse

MAX_RESPONSE_BYTES = 64 * 1024
REQUEST_TIMEOUT_SECONDS = 5.0
_TEMPORARY_ERRORS = ("server_error", "temporarily_unavailable")  # the provider's own failure
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_MAX_TOKEN_LENGTH = 16_384
_MAX_LIFETIME_SECONDS = 10 * 365 * 86_400.0
_BEARER = ("bearer", "user", "bot")  # the last two are Slack's
_SEPARATORS = re.compile(r"[ ,]+")  # GitHub and Slack use commas
_USER_CODE = re.compile(r"[A-Za-z0-9 -]{4,32}")
_MAX_INTERVAL = 60.0
FormFields = dict[str, str]
REFUSED_CLIENT = ("invalid_client", "unauthorized_client")


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
        # Called with a provider that does not know the hall (any more) as a client.
        self.on_client_refused: Callable[[Provider], Awaitable[None]] | None = None

    async def find_document(self, url: str) -> JsonObject | None:
        """Return the JSON object at a URL, None if there is none; raises ProviderUnreachable if nobody can tell.

        Unlike `get_document` it takes a web page or a redirect for an answer: many servers have one for every path.
        """
        reply = await self._fetch("GET", url, {"accept": "application/json"})
        if reply.status >= 500 or reply.status == 429:
            raise ProviderUnreachable(f"{display_url(url)} answers with status {reply.status}")
        if reply.status != 200:
            return None
        try:
            return _json_object(reply)
        except ProviderUnreachable:
            return None

    async def probe(self, url: str) -> str | None:
        """Ask an MCP server for its tools without a credential; return the `WWW-Authenticate` of its refusal."""
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        question: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        try:
            reply = await self._fetch("POST", url, headers, question, as_json=True)
        except ProviderUnreachable:  # it may have answered with an endless stream; the metadata says more
            return None
        return reply.headers.get("www-authenticate") if reply.status in (401, 403) else None

    async def register(self, url: str, metadata: JsonObject) -> JsonObject:
        """Register the hall as a client (RFC 7591); raises ProviderRefused or ProviderUnreachable."""
        reply = await self._fetch("POST", url, {"accept": "application/json"}, metadata, as_json=True)
        if reply.status not in (200, 201):
            if 400 <= reply.status < 500 and reply.status != 429:
                raise ProviderRefused(_error_code(reply))
            raise ProviderUnreachable(f"{display_url(url)} answers with status {reply.status}")
        return _json_object(reply)

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
            if error in REFUSED_CLIENT and self.on_client_refused is not None:
                await self.on_client_refused(provider)
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
        fields: Mapping[str, Json] | None = None,
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
                json=dict(fields) if as_json and fields is not None else None,
                max_bytes=MAX_RESPONSE_BYTES,
                seconds=seconds,
            )
        except EgressRefused as error:
            raise AddressRefused(str(error)) from None
        except EgressFailed as error:
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


def client_credentials_form(provider: Provider) -> FormFields:
    """The form that gets a token for the hall itself (RFC 6749, 4.4)."""
    scope = {"scope": " ".join(provider.scopes)} if provider.scopes else {}
    return {"grant_type": "client_credentials", **scope, **_resource_field(provider.resource)}


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
    if auth == "private_key_jwt" and provider.client_key is not None:
        from toolhall.oauth.client_assertion import sign_assertion  # lazy: joserfc, which few providers need

        fields |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": sign_assertion(provider)}
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


def _error_code(reply: "EgressResponse") -> Json:
    try:
        return _json_object(reply).get("error")
    except ProviderUnreachable:
        return None


def _json_object(reply: "EgressResponse") -> JsonObject:
    try:
        found = strict_json.decode(reply.body)
    except Malformed:  # its message may quote the body
        raise ProviderUnreachable(f"the answer (status {reply.status}) is not JSON") from None
    if not isinstance(found, dict):
        raise ProviderUnreachable(f"the answer (status {reply.status}) is no JSON object")
    return found
