"""Protected resource metadata (RFC 9728) and bearer challenges, as pure functions: Challenge, UpstreamResource.

The metadata of an upstream says which authorization servers issue tokens for it. It is believed only if its `resource`
is the upstream itself: otherwise a token for another resource could be asked for and sent to the upstream.
"""

import re
from urllib.parse import urlsplit, urlunsplit

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.model.text import clean_text
from toolhall.oauth.providers import DiscoveryFailed, is_allowed_endpoint, is_private_url, is_safe_url, is_scope

MAX_CHALLENGE = 8_192
MAX_ISSUERS = 5  # of one resource; each costs requests
MAX_ISSUER = 512
MAX_RESOURCE = 1_024
MAX_SCOPES = 100
INSUFFICIENT_SCOPE = "insufficient_scope"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
_MAX_SHOWN = 200
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, 5.6.2
_PART = re.compile(rf'({_TOKEN})(\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?')
_ESCAPED = re.compile(r"\\(.)")


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """What a server that refused a request says of the token that it wants (RFC 6750, 3; RFC 9728, 5.1)."""

    error: str | None = None
    scopes: tuple[str, ...] = ()
    metadata_url: str | None = None


class UpstreamResource(msgspec.Struct, frozen=True, kw_only=True):
    """Who issues tokens for a resource, and which scopes it knows."""

    resource: str  # as it was published: for requests to the authorization server
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    is_published: bool = True  # False: it says nothing, and its origin is taken for the authorization server


def parse_challenge(header: str | None) -> Challenge | None:
    """Return the first bearer challenge of a `WWW-Authenticate` header; None if there is none."""
    if header is None or len(header) > MAX_CHALLENGE:
        return None
    parameters: dict[str, str] | None = None
    for found in _PART.finditer(header):
        name = found[1].lower()
        if found[2] is not None:
            if parameters is not None:
                parameters.setdefault(name, _ESCAPED.sub(r"\1", found[3] or found[4] or ""))
        elif parameters is not None:
            break  # the next challenge
        elif name == "bearer":
            parameters = {}
    if parameters is None:
        return None
    return Challenge(
        error=parameters.get("error"),
        scopes=_scopes(parameters.get("scope", "").split(" ")),
        metadata_url=parameters.get("resource_metadata") or None,
    )


def resource_metadata_urls(upstream_url: str, challenge: Challenge | None) -> tuple[str, ...]:
    """Return where the metadata of an upstream may be: as its challenge says, by its path, at its root."""
    parts = urlsplit(upstream_url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = [f"{origin}{WELL_KNOWN}{path}", f"{origin}{WELL_KNOWN}"]
    if challenge is not None and challenge.metadata_url is not None and may_name(upstream_url, challenge.metadata_url):
        urls.insert(0, challenge.metadata_url)
    return tuple(dict.fromkeys(urls))


def read_resource_metadata(document: JsonObject, upstream_url: str) -> UpstreamResource | None:
    """Read the metadata; None if it names no authorization server. Raises DiscoveryFailed for another resource."""
    resource = document.get("resource")
    if not isinstance(resource, str) or not is_resource_of(resource, upstream_url):
        named = clean_text(resource)[:_MAX_SHOWN] if isinstance(resource, str) else "no resource"
        raise DiscoveryFailed(
            f"the metadata of this upstream is for {named}, and not for {canonical_resource(upstream_url)}"
            "; set the upstream's url to what its metadata names, or report it to whoever runs the upstream"
        )
    listed = document.get("authorization_servers")
    issuers = tuple(each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str))
    short = (each for each in issuers[:MAX_ISSUERS] if len(each) <= MAX_ISSUER)
    allowed = tuple(each for each in short if may_name(upstream_url, each))
    if issuers and not allowed:
        raise DiscoveryFailed(
            "the authorization servers in the metadata of this upstream are neither public https addresses nor at the"
            " upstream; report it to whoever runs the upstream"
        )
    if not allowed:
        return None
    return UpstreamResource(resource=resource, issuers=allowed, scopes=_scopes(document.get("scopes_supported")))


def is_resource_of(resource: str, upstream_url: str) -> bool:
    """Return whether a resource is the upstream's URL or its origin, after normalizing."""
    if len(resource) > MAX_RESOURCE or not is_safe_url(resource):
        return False
    wanted = canonical_resource(upstream_url)
    parts = urlsplit(wanted)
    return canonical_resource(resource) in (wanted, f"{parts.scheme}://{parts.netloc}")


def canonical_resource(url: str) -> str:
    """Return a URL as a resource indicator: without query, fragment and default port, host in lower case."""
    parts = urlsplit(url)
    host, port = (parts.hostname or "").lower(), parts.port
    host = f"[{host}]" if ":" in host else host
    scheme = parts.scheme.lower()
    place = host if port in (None, {"https": 443, "http": 80}.get(scheme)) else f"{host}:{port}"
    return urlunsplit((scheme, place, parts.path.rstrip("/"), "", ""))


def origin_of(url: str) -> str:
    """Return the origin of a URL."""
    parts = urlsplit(canonical_resource(url))
    return f"{parts.scheme}://{parts.netloc}"


def may_name(upstream_url: str, url: str) -> bool:
    """Return whether an upstream may name a URL: a public one or one of its own origin; private ones if it is private.

    The egress client decides whether the hall connects to it; this keeps a public upstream from naming a destination
    that the operator allowed for something else.
    """
    return is_allowed_endpoint(upstream_url, url) or (is_private_url(upstream_url) and is_safe_url(url))


def _scopes(listed: Json) -> tuple[str, ...]:
    texts = (each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str))
    return tuple(dict.fromkeys(each for each in texts if is_scope(each)))[:MAX_SCOPES]
