"""ProviderDiscovery: the metadata of issuers (RFC 8414, OpenID Connect), which names their endpoints.

`read_metadata` believes a document only if it names the issuer that it was asked for.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from toolhall.model.json import JsonObject
from toolhall.oauth.client import OAuthClient
from toolhall.oauth.providers import Endpoints, Provider, ProviderUnreachable, TokenAuth, is_allowed_endpoint

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


def read_metadata(document: JsonObject, provider: Provider, *, for_people: bool = True) -> Endpoints:
    """Read the endpoints; raises ProviderUnreachable for another issuer, or one without PKCE by S256.

    Without `for_people`, the issuer need not have what a person's consent takes.
    """
    if document.get("issuer") != provider.issuer:
        raise ProviderUnreachable(
            f"the metadata of {provider.name} names another issuer than the settings, byte for byte"
        )
    methods = document.get("code_challenge_methods_supported")
    if for_people and (not isinstance(methods, list) or "S256" not in methods):
        raise ProviderUnreachable(
            f"{provider.name} does not say that it supports PKCE with S256; it is not used without"
        )
    auth_methods = _texts(document, "token_endpoint_auth_methods_supported")
    urls = {ours: _endpoint(document, theirs, provider) for ours, theirs in _ENDPOINT_MEMBERS.items()}
    found = Endpoints(
        authorize_url=urls["authorize_url"] or "",
        token_url=urls["token_url"] or "",
        revoke_url=urls["revoke_url"],
        device_url=urls["device_url"],
        register_url=_register_url(document, provider),
        token_auth=provider.token_auth or _token_auth_method(auth_methods),
        auth_methods=auth_methods,
        sends_iss=document.get("authorization_response_iss_parameter_supported") is True,
        client_documents=document.get("client_id_metadata_document_supported") is True,
        scopes=_texts(document, "scopes_supported"),
    )
    if not found.token_url or (for_people and not found.authorize_url):
        raise ProviderUnreachable(f"the metadata of {provider.name} names no authorization and token endpoint")
    return found


def _texts(document: JsonObject, name: str) -> tuple[str, ...]:
    listed = document.get(name)
    return tuple(each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str))


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


def _register_url(document: JsonObject, provider: Provider) -> str | None:
    url = document.get("registration_endpoint")
    return url if isinstance(url, str) and is_allowed_endpoint(provider.issuer or "", url) else None


def _token_auth_method(listed: tuple[str, ...]) -> TokenAuth:
    """Return the client authentication method; without metadata it is basic (RFC 8414)."""
    return "post" if "client_secret_post" in listed and "client_secret_basic" not in listed else "basic"
