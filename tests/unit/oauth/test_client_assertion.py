"""Clients that prove themselves with a private key."""

from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.servers.account_broker import provider_settings
from toolhall.oauth.client import with_client_auth
from toolhall.oauth.client_assertion import sign_assertion
from toolhall.oauth.providers import BadProvider, Provider, ProviderUnreachable, build_provider

ISSUER = "https://login.example.com"
KEYS: dict[str, Callable[[], ECKey | RSAKey]] = {
    "ES256": lambda: ECKey.generate_key("P-256"),
    "ES384": lambda: ECKey.generate_key("P-384"),
    "RS256": lambda: RSAKey.generate_key(2048),
}


def provider_with(folder: Path, pem: bytes) -> Provider:
    """A provider whose client has this key."""
    file = folder / "key.pem"
    file.write_bytes(pem)
    return build_provider("corp", provider_settings(ISSUER, client_secret=None, client_key_file=str(file)))


@pytest.mark.parametrize("algorithm", KEYS)
def test_sign_assertion_names_the_client_for_its_issuer_once(algorithm: str, tmp_path: Path) -> None:
    key = KEYS[algorithm]()
    provider = provider_with(tmp_path, key.as_pem(private=True))
    assert provider.token_auth == "private_key_jwt"
    first, second = (jwt.decode(sign_assertion(provider), key, algorithms=[algorithm]).claims for _ in range(2))
    assert (first["iss"], first["sub"], first["aud"]) == ("hall", "hall", ISSUER)
    assert first["exp"] - first["iat"] == 60
    assert first["jti"] != second["jti"]


def test_with_client_auth_sends_the_assertion_and_no_secret(tmp_path: Path) -> None:
    provider = provider_with(tmp_path, KEYS["ES256"]().as_pem(private=True))
    headers, form = with_client_auth(provider, "private_key_jwt", {"grant_type": "client_credentials"})
    assert "authorization" not in headers
    assert form.keys() == {"grant_type", "client_id", "client_assertion_type", "client_assertion"}


@pytest.mark.parametrize("bad", ["secp256k1", "X25519", "no PEM"])
def test_sign_assertion_with_a_key_that_cannot_sign_names_the_setting(bad: str, tmp_path: Path) -> None:
    pem = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    if bad != "no PEM":
        key = ECKey.generate_key(bad) if bad == "secp256k1" else OKPKey.generate_key("X25519")
        pem = key.as_pem(private=True)
    with pytest.raises(ProviderUnreachable, match="client_key_file of corp holds no private key") as failed:
        sign_assertion(provider_with(tmp_path, pem))
    assert "AAAA" not in str(failed.value)


def test_build_provider_with_a_file_without_a_private_key_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(BadProvider, match=r"providers.corp: client_key_file holds no private key in PEM"):
        provider_with(tmp_path, b"no key at all")
    settings = provider_settings(ISSUER, client_secret=None, token_auth="private_key_jwt")
    with pytest.raises(BadProvider, match="set client_key_file too"):
        build_provider("corp", settings)
