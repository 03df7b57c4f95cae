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
from toolhall.oauth.errors import LinkFailed
from toolhall.oauth.providers import Endpoints, Provider

CALLBACK_PATH = "/oauth/callback"
_MAX_CODE_LENGTH = 8_192
# RFC 6749, 4.1.2.1, and OpenID Connect: these words may be shown; what else a provider says may not.
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
    """What an answer is checked with; nobody but the hall knows the verifier."""

    state: Secret
    verifier: Secret
    redirect_uri: str
    issuer: str
    scopes: tuple[str, ...]
    resource: str | None


def callback_path(provider: Provider, endpoints: Endpoints) -> str:
    """The path that an answer comes back to; by it alone is known who answers, where no answer names its issuer.

    RFC 9700, 4.4: otherwise a provider could send a browser on to another one, and be given the code from there.
    """
    return CALLBACK_PATH if endpoints.sends_iss else f"{CALLBACK_PATH}/{provider.name}"


def is_provider_specific(redirect_uri: str) -> bool:
    """Whether one provider alone sends browsers back to it."""
    return not redirect_uri.endswith(CALLBACK_PATH)


def make_state(link_id: str, random: str) -> Secret:
    """What comes back with the answer; it names the link, and nobody can guess the rest."""
    return Secret(f"{link_id}.{random}")


def link_id_from_state(state: str | None) -> str | None:
    """The link that an answer says it is for."""
    link_id, dot, random = (state or "").partition(".")
    return link_id if dot and random and len(link_id) <= 64 else None


def pkce_challenge(verifier: Secret) -> str:
    """RFC 7636, S256."""
    digest = hashlib.sha256(verifier.reveal().encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def authorize_url(provider: Provider, endpoints: Endpoints, attempt: PendingAuthorization) -> str:
    """Where the person's browser is sent."""
    said = {
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
    query = urlencode({name: value for name, value in said.items() if value})
    return f"{endpoints.authorize_url}{'&' if '?' in endpoints.authorize_url else '?'}{query}"


def state_matches(attempt: PendingAuthorization, state: str | None) -> bool:
    """Whether an answer is to this attempt; compared in constant time."""
    given = (state or "").encode(errors="surrogatepass")
    return hmac.compare_digest(attempt.state.reveal().encode(), given)


def check_callback(
    attempt: PendingAuthorization, provider: Provider, endpoints: Endpoints, query: Mapping[str, str]
) -> Secret:
    """The code in an answer that may be believed; LinkFailed otherwise.

    Nothing of an answer is looked at, an error neither, before it is clear who gives it.
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
    """RFC 9207: who answers must be who was asked, byte for byte; who says to name itself must."""
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
    """The answer in an address that a person copied; it must be the redirect address, exactly, with a query."""
    address, mark, query = url.strip().partition("?")
    if not mark or address != redirect_uri or "#" in query:
        raise LinkFailed(f"paste the whole address that your browser was sent to; it begins with {redirect_uri}?")
    return parse_query(query)


def parse_query(query: str) -> dict[str, str]:
    """The parameters of an answer; one that is there twice is none."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=50, errors="strict")
    except ValueError:
        raise LinkFailed from None
    if len(dict(pairs)) != len(pairs):
        raise LinkFailed
    return dict(pairs)


def url_host(url: str) -> str:
    """The host of an address, for a person to read."""
    return urlsplit(url).netloc
