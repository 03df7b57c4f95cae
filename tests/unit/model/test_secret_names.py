"""Secrets by name and by shape: what is hidden, and what is not."""

import base64

import pytest

from toolhall.model.secret import is_count_name, is_secret_name
from toolhall.redaction.secret_patterns import REDACTED, redact_patterns

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----"
WEB_TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"
LETTERS = "4f9aB27cD81eF06a5b3c9d2e7f10a8b6c4d2"


def test_is_secret_name_matches(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        *("password", "PASSWORD", "passWord", "pass_word", "pass-word", "Pass Word", "db.password", "userPassword2"),
        *(
            "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44",
            "pa\u0301ssword",
            "pass\u200bword",
            "passwd",
            "passphrase",
            "Passwort",
            "contraseña",
        ),
        *("api_key", "apiKey", "X-API-Key", "API KEY", "api.key", "apikey", "APIKEY", "openai_api_key", "ApiKeyId"),
        *("secret", "client_secret", "SecretAccessKey", "secrets", "token", "access_token", "refreshToken", "tokens"),
        *("Authorization", "proxy-authorization", "Cookie", "set-cookie", "cookies", "credentials", "private_key"),
        *("bearer", "jwt", "sessionId", "PHPSESSID", "otp", "userPIN", "user_pin", "pwd", "db_pass", "cvv", "auth"),
        "x" * 300,
    ]
    for name in rows:
        with subtests.test(repr(name)):
            assert is_secret_name(name)


def test_is_secret_name_does_not_match_harmless_names(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        *(
            "",
            "city",
            "key",
            "keys",
            "monkey",
            "author",
            "authors",
            "authority",
            "pinned",
            "shipping",
            "spin",
            "compass",
        ),
        *(
            "tokenizer",
            "tokenise",
            "bypass",
            "passenger",
            "passes",
            "inside",
            "siding",
            "public_key",
            "keyword",
            "option",
        ),
    ]
    for name in rows:
        with subtests.test(repr(name)):
            assert not is_secret_name(name)


def test_is_count_name() -> None:
    assert is_count_name("max_tokens")
    assert is_count_name("promptTokens")
    assert not is_count_name("token")
    assert not is_count_name("passwords")


def hidden(text: str) -> tuple[str, list[str]]:
    found: list[str] = []
    return redact_patterns(text, found.append), found


KEYS = [
    WEB_TOKEN,
    WEB_TOKEN.rpartition(".")[0] + ".",
    *(f"sk-{LETTERS}", f"sk-proj-{LETTERS}", f"sk-ant-api03-{LETTERS}", f"sk_live_{LETTERS}", f"gsk_{LETTERS}"),
    f"tk_0123456789Ab_{LETTERS}ABCDEFG_0aB1cD",
    *(f"ghp_{LETTERS}", f"gho_{LETTERS}", f"github_pat_{LETTERS}", f"glpat-{LETTERS}", f"xoxb-123-{LETTERS}"),
    *("AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", f"AIzaSy{LETTERS}", f"ya29.{LETTERS}", f"npm_{LETTERS}"),
    *(f"hf_{LETTERS}", f"SG.{LETTERS}", f"pypi-{LETTERS}", f"hvs.{LETTERS}", f"dop_v1_{LETTERS.lower()}"),
]


def test_redact_patterns_finds_keys_in_any_context(subtests: pytest.Subtests) -> None:
    rows_2: list[str] = ["{}", "use {} now", '{{"a":"{}"}}', "https://example.com/{}", "a={};", "\n{}\n"]
    for key in KEYS:
        for around in rows_2:
            with subtests.test(repr((key, around))):
                shown, found = hidden(around.format(key))
                assert key not in shown
                assert REDACTED in shown
                assert any(key in secret for secret in found)


def test_redact_patterns_replaces_secrets(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        (f"before {PEM} after", f"before {REDACTED} after"),
        (f"cut {PEM[:60]}", f"cut {REDACTED}"),
        (PEM.replace("\n", "\\n"), REDACTED),
        ("Bearer abc123def", f"Bearer {REDACTED}"),
        ("curl -H 'Authorization: bearer abc123def' x", f"curl -H 'Authorization: {REDACTED}"),
        ("a\nCookie: a=b; c=d\nHost: x", f"a\nCookie: {REDACTED}\nHost: x"),
        (f"Basic {base64.b64encode(b'me:hunter2').decode()}", f"Basic {REDACTED}"),
        ("postgres://me:hunter2@db/x", f"postgres://me:{REDACTED}@db/x"),
        ("https://x/?a=1&sig=abc%3D&b=2", f"https://x/?a=1&sig={REDACTED}&b=2"),
        ("https://x/?access_token=abc&b=2", f"https://x/?access_token={REDACTED}&b=2"),
        ("DB_PASSWORD=hunter2 next", f"DB_PASSWORD={REDACTED} next"),
        ("password: 'correct horse'", f"password: '{REDACTED}'"),
        ('{"api_key": "a\\"b c", "n": 1}', f'{{"api_key": "{REDACTED}", "n": 1}}'),
        ('"{\\"password\\": \\"a b\\", \\"n\\": 1}"', f'"{{\\"password\\": \\"{REDACTED}\\", \\"n\\": 1}}"'),
        (f"12345678:{LETTERS[:35]}", f"12345678:{REDACTED}"),
        (f"password={REDACTED}hunter2", f"password={REDACTED}"),
        ("f(password=hun]t(er2), 3", f"f(password={REDACTED} 3"),
    ]
    for text, shown in rows:
        with subtests.test(repr((text, shown))):
            assert hidden(text)[0] == shown


def test_redact_patterns_leaves_harmless_text(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        *("", "Oslo", "a basic understanding", "risk-management-framework-2026", "max_tokens=100", "token: null"),
        *("see https://example.com/a/b?page=2&size=10", "the tokenizer: cl100k", "eyJhIjoxfQ", "10:30", REDACTED),
        *(
            "2026-12-01T12:00:00Z",
            "d41d8cd98f00b204e9800998ecf8427e",
            f"password={REDACTED}",
            f"password: '{REDACTED}'",
        ),
        "7b0a3a4e-3b1c-4f0e-9f64-0d6a4b1f3c11",
    ]
    for text in rows:
        with subtests.test(repr(text)):
            assert hidden(text) == (text, [])
