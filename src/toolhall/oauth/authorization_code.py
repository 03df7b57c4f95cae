"""The authorization code flow with PKCE, as pure functions: builds authorization URLs, validates callbacks.

Callbacks are checked by state, by issuer (RFC 9207) and by redirect URI; a provider that does not send its issuer gets
a redirect URI of its own, against mix-up attacks (RFC 9700, 4.4).
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.oauth.providers import Endpoints, LinkFailed, Provider

CALLBACK_PATH = "/oauth/callback"
_MAX_CODE_LENGTH = 8_192
# RFC 6749, 4.1.2.1, and OpenID Connect: messages for known error codes; other text of a provider is never shown.
_ERRORS = {
    "access_denied": "access was denied: nothing was connected",
    "invalid_scope": "the provider does not know what was asked for; the operator checks the tool's scopes",
    "unauthorized_client": "the provider does not let this hall ask; the operator checks the hall's registration there",
    "temporarily_unavailable": "the provider is not available now; try again later",
    "server_error": "the provider failed; try again later",
    "consent_required": "the provider needs your consent; try again",
    "interaction_required": "the provider needs you to sign in; try again",
    "login_required": "the provider needs you to sign in; try again",
}
_OTHER_ERROR = "the provider refused; the operator checks the hall's registration there"
ISSUER_MISMATCH = "the answer does not come from the provider that was asked; nothing was connected"


class PendingAuthorization(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization request that was sent: what its callback is checked against. Stored encrypted."""

    state: Secret
    verifier: Secret
    redirect_uri: str
    issuer: str
    scopes: tuple[str, ...]
    resource: str | None


def callback_path(provider: Provider, endpoints: Endpoints) -> str:
    """Return the redirect path: a path of its own for a provider that does not send `iss` in its responses.

    RFC 9700, 4.4: otherwise a provider could redirect the browser to another one and receive that one's code (mix-up).
    """
    return redirect_path(provider.callback or provider.name, endpoints)


def redirect_path(name: str, endpoints: Endpoints) -> str:
    """Return the redirect path at a provider whose own path ends with this name."""
    return CALLBACK_PATH if endpoints.sends_iss else f"{CALLBACK_PATH}/{name}"


def issuer_digest(issuer: str) -> str:
    """Return a short name of an issuer that an upstream chose, for paths; several upstreams may have the same one."""
    return hashlib.sha256(issuer.encode()).hexdigest()[:16]


def is_provider_specific(redirect_uri: str) -> bool:
    """Return whether this redirect URI belongs to one provider only."""
    return not redirect_uri.endswith(CALLBACK_PATH)


def make_state(link_id: str, random: str) -> Secret:
    """Return the `state` parameter: the link's id and a random part that cannot be guessed."""
    return Secret(f"{link_id}.{random}")


def link_id_from_state(state: str | None) -> str | None:
    """Return the link id in a `state` parameter; not yet verified."""
    link_id, dot, random = (state or "").partition(".")
    return link_id if dot and random and len(link_id) <= 64 else None


def pkce_challenge(verifier: Secret) -> str:
    """Return the PKCE code challenge (RFC 7636, S256)."""
    digest = hashlib.sha256(verifier.reveal().encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def authorize_url(provider: Provider, endpoints: Endpoints, attempt: PendingAuthorization) -> str:
    """Return the authorization URL for the person's browser."""
    parameters = {
        **provider.authorize_params,
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": " ".join(attempt.scopes),
        "state": attempt.state.reveal(),
        "code_challenge": pkce_challenge(attempt.verifier),
        "code_challenge_method": "S256",
        "resource": attempt.resource,
    }
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{endpoints.authorize_url}{'&' if '?' in endpoints.authorize_url else '?'}{query}"


def state_matches(attempt: PendingAuthorization, state: str | None) -> bool:
    """Return whether a callback belongs to this authorization; compares in constant time."""
    received = (state or "").encode(errors="surrogatepass")
    return hmac.compare_digest(attempt.state.reveal().encode(), received)


def check_callback(
    attempt: PendingAuthorization, provider: Provider, endpoints: Endpoints, query: Mapping[str, str]
) -> Secret:
    """Return the code of a valid callback; raises LinkFailed.

    State and issuer are checked before anything else, also before an error in the callback is believed.
    """
    if not state_matches(attempt, query.get("state")):
        raise LinkFailed
    check_issuer(attempt, provider, endpoints, query.get("iss"))
    if "error" in query:
        raise LinkFailed(_ERRORS.get(query["error"], _OTHER_ERROR))
    code = query.get("code", "")
    if not MIN_SECRET_LENGTH <= len(code) <= _MAX_CODE_LENGTH:
        raise LinkFailed(_OTHER_ERROR)
    return Secret(code)


def check_issuer(attempt: PendingAuthorization, provider: Provider, endpoints: Endpoints, iss: str | None) -> None:
    """Check the issuer of a callback, byte for byte (RFC 9207); required if the provider announces to send it."""
    if attempt.issuer != provider.identity:
        raise LinkFailed("the provider was changed in between; call the tool again to get a new link")
    if iss is None:
        if endpoints.sends_iss or not is_provider_specific(attempt.redirect_uri):
            raise LinkFailed(ISSUER_MISMATCH)
        return
    if provider.issuer is None:
        raise LinkFailed(f"the provider names an issuer; the operator sets providers.{provider.name}.issuer to it")
    if not hmac.compare_digest(iss.encode(errors="surrogatepass"), provider.issuer.encode()):
        raise LinkFailed(ISSUER_MISMATCH)


def parse_pasted_url(redirect_uri: str, url: str) -> dict[str, str]:
    """Return the parameters of a pasted callback URL; it must be exactly the redirect URI with a query."""
    address, mark, query = url.strip().partition("?")
    if not mark or address != redirect_uri or "#" in query:
        raise LinkFailed(f"paste the whole address that your browser was sent to; it begins with {redirect_uri}?")
    return parse_query(query)


def parse_query(query: str) -> dict[str, str]:
    """Parse the query of a callback; raises LinkFailed, also for a repeated parameter."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=50, errors="strict")
    except ValueError:
        raise LinkFailed from None
    if len(dict(pairs)) != len(pairs):
        raise LinkFailed
    return dict(pairs)


def url_host(url: str) -> str:
    """Return the host of a URL, to show to a person."""
    return urlsplit(url).netloc
