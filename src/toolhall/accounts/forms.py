"""What a provider's endpoints are sent: the forms of OAuth, and how the hall proves who it is."""

import base64
from urllib.parse import quote_plus

from toolhall.accounts.flow import Attempt
from toolhall.accounts.presets import TokenAuth
from toolhall.accounts.providers import Provider
from toolhall.model.secret import Secret

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
Form = dict[str, str]


def code_form(attempt: Attempt, code: Secret) -> Form:
    """A code for tokens, with the proof that it was asked for here."""
    return {
        "grant_type": "authorization_code",
        "code": code.reveal(),
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier.reveal(),
        **_resource(attempt.resource),
    }


def refresh_form(provider: Provider, refresh: Secret) -> Form:
    """A refresh token for the next tokens."""
    return {"grant_type": "refresh_token", "refresh_token": refresh.reveal(), **_resource(provider.resource)}


def device_form(provider: Provider, scopes: tuple[str, ...]) -> Form:
    """RFC 8628: a code that a person enters elsewhere."""
    return {"client_id": provider.client_id, "scope": " ".join(scopes), **_resource(provider.resource)}


def poll_form(device_code: Secret) -> Form:
    """RFC 8628: whether the person has entered it."""
    return {"grant_type": DEVICE_GRANT, "device_code": device_code.reveal()}


def revoke_form(token: Secret, kind: str) -> Form:
    """RFC 7009."""
    return {"token": token.reveal(), "token_type_hint": kind}


def proven(provider: Provider, auth: TokenAuth, form: Form) -> tuple[dict[str, str], Form]:
    """The headers and the form with the hall's own credentials, in the one way that the provider wants them."""
    headers = {"accept": "application/json", **provider.preset.headers}
    secret = provider.client_secret
    if auth == "basic" and secret is not None:
        pair = f"{quote_plus(provider.client_id)}:{quote_plus(secret.reveal())}"  # RFC 6749, 2.3.1
        return headers | {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, form
    named = form | {"client_id": provider.client_id}
    if auth == "post" and secret is not None:
        named["client_secret"] = secret.reveal()
    return headers, named


def _resource(resource: str | None) -> Form:
    return {} if resource is None else {"resource": resource}
