"""`sign_assertion`: how a client proves itself with a private key instead of a secret (RFC 7523, `private_key_jwt`).

An assertion is good for a minute and for one issuer. Nothing of the key gets into an error.
"""

import secrets
import time

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeyParameters, RSAKey

from toolhall.oauth.providers import Provider, ProviderUnreachable

LIFETIME_SECONDS = 60
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_BAD_KEY = "client_key_file of {} holds no private key for ES256, ES384, ES512 or RS256"


def sign_assertion(provider: Provider) -> str:
    """Return a signed assertion for the provider's issuer; raises ProviderUnreachable for a key that cannot sign."""
    key, algorithm = _read_key(provider)
    now = int(time.time())
    endpoints = provider.endpoints
    claims = {
        "iss": provider.client_id,
        "sub": provider.client_id,
        "aud": provider.issuer or (endpoints.token_url if endpoints else ""),
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    try:
        return jwt.encode({"alg": algorithm, "typ": "JWT"}, claims, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError):  # a public key, or one for encryption only
        raise ProviderUnreachable(_BAD_KEY.format(provider.name)) from None


def _read_key(provider: Provider) -> tuple[ECKey | RSAKey, str]:
    """Return the key, and the algorithm that it is for."""
    pem = "" if provider.client_key is None else provider.client_key.reveal()
    parameters: KeyParameters = {}
    for kind in (ECKey, RSAKey):
        try:
            key = kind.import_key(pem, parameters)
        except (JoseError, ValueError, TypeError):
            continue
        if isinstance(key, RSAKey):
            return key, "RS256"
        if key.curve_name in _CURVES:
            return key, _CURVES[key.curve_name]
    raise ProviderUnreachable(_BAD_KEY.format(provider.name))
