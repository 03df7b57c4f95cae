"""What the settings say of providers: presets, what is refused, and that no secret is shown."""

from pathlib import Path
from typing import Any

import pytest

from toolhall.model.secret import Secret
from toolhall.oauth.providers import (
    PRESETS,
    BadProvider,
    Provider,
    ProviderSettings,
    build_provider,
    is_safe_url,
    provider_display_name,
)


def provider(name: str = "acme", **said: Any) -> Provider:
    given: dict[str, Any] = {"client_id": "hall"} | said
    return build_provider(name, ProviderSettings(**given))


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"generic"}))
def test_build_provider_by_preset_name_has_https_endpoints(name: str) -> None:
    found = provider(name, client_secret="s3cret-of-the-hall")
    assert found.endpoints is not None
    urls = (found.endpoints.authorize_url, found.endpoints.token_url)
    assert all(each.startswith("https://") and is_safe_url(each) for each in urls)
    assert found.endpoints.token_auth in ("basic", "post")
    assert provider("work", preset=name, client_secret="s3cret-of-the-hall").endpoints == found.endpoints


def test_build_provider_with_own_issuer_ignores_the_preset_of_its_name() -> None:
    """Otherwise the tokens of one's own server would go to somebody else's."""
    found = provider("google", issuer="https://idp.example")
    assert found.endpoints is None
    assert found.identity == "https://idp.example"


def test_build_provider_settings_override_the_preset() -> None:
    found = provider("x", preset="google", issuer="https://idp.example", authorize_params={"prompt": "none"})
    assert found.issuer == "https://idp.example"
    assert found.authorize_params == {"access_type": "offline", "prompt": "none"}


def test_build_provider_without_issuer_uses_the_token_url_as_identity() -> None:
    found = provider(authorize_url="https://a.example/a", token_url="https://a.example/t")
    assert found.identity == "https://a.example/t"


def test_provider_covers_scopes_by_their_aliases() -> None:
    google = provider("google")
    long = "https://www.googleapis.com/auth/userinfo.email"
    assert google.covers((long,), ("email",))
    assert google.covers(("email",), (long,))
    assert google.missing_scopes(("email",), ("email", "profile")) == ("profile",)
    assert provider("microsoft").covers(("https://graph.microsoft.com/Mail.Read",), ("Mail.Read",))
    assert not provider(issuer="https://a.example").covers((long,), ("email",))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "set issuer, or authorize_url and token_url, or preset"),
    "half": ({"token_url": "https://a.example/t"}, "set issuer, or authorize_url"),
    "no such preset": ({"preset": "gogle"}, "there is no preset 'gogle'"),
    "plain http": ({"issuer": "http://a.example"}, "issuer is not an https URL"),
    "a user": ({"issuer": "https://me@a.example"}, "issuer is not an https URL"),
    "a fragment": ({"issuer": "https://a.example#x"}, "issuer is not an https URL"),
    "a query": ({"issuer": "https://a.example?x"}, "issuer is not an https URL"),
    "a script": ({"authorize_url": "javascript:alert(1)", "token_url": "https://a.example"}, "authorize_url is not"),
    "two scopes in one": ({"preset": "google", "scopes": ("a b",)}, "list each one by itself"),
    "no client": ({"preset": "google", "client_id": ""}, "client_id is what the provider calls this hall"),
    "our parameters": ({"preset": "google", "authorize_params": {"state": "x"}}, "may not hold state"),
    "no secret": ({"preset": "google", "token_auth": "post"}, "set client_secret"),
    "two secrets": ({"preset": "google", "client_secret": "abcd", "client_secret_file": "x"}, "not both"),
    "a short secret": ({"preset": "google", "client_secret": "abc"}, "shorter than"),
    "no file": ({"preset": "google", "client_secret_file": "/nowhere/at/all"}, "cannot be read"),
}


@pytest.mark.parametrize(("said", "fix"), BAD.values(), ids=BAD.keys())
def test_build_provider_with_invalid_settings_names_the_provider_and_the_fix(said: dict[str, Any], fix: str) -> None:
    with pytest.raises(BadProvider, match=fix) as refused:
        provider(**said)
    assert "providers.acme" in str(refused.value)


def test_build_provider_with_an_invalid_name_is_refused() -> None:
    with pytest.raises(BadProvider, match="use letters"):
        provider("a b", preset="google")


def test_build_provider_reads_the_client_secret_from_a_file_and_hides_it_in_repr(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret-of-the-hall\n")
    found = provider("google", client_secret_file=str(file))
    assert found.client_secret == Secret("s3cret-of-the-hall")
    assert "s3cret" not in repr(found)
    assert "s3cret" not in repr(ProviderSettings(client_id="hall", client_secret="s3cret-of-the-hall"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("google", "Google"), ("github", "GitHub"), ("acme-corp", "acme-corp")],
)
def test_provider_has_a_name_for_people(name: str, shown: str) -> None:
    assert provider_display_name(name) == shown
