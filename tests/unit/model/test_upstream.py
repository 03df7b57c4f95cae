"""What the settings of an upstream hide: credentials in values, in arguments and in URLs."""

import pytest

from toolhall.model.upstream import UpstreamSettings, shown_args, shown_settings

LONG = "0123456789abcdefghijKLMN"


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("Authorization", "Bearer abcdefgh", ["Bearer abcdefgh", "abcdefgh"]),
        ("X-Api-Key", "key-1234", ["key-1234"]),
        ("X-Anything", LONG, [LONG]),
        ("X-Region", "europe", []),
        ("X-Token", "abc", []),
        ("X-Token", "${secret:TOKEN}", []),
    ],
    ids=["scheme", "name", "length", "neither", "short", "reference"],
)
def test_values_that_may_be_credentials_are_secrets(name: str, value: str, hidden: list[str]) -> None:
    header = UpstreamSettings(url="https://a.example", headers={name: value})
    variable = UpstreamSettings(command="a", env={name.replace("-", "_"): value})
    for settings in (header, variable):
        assert [each.reveal() for each in settings.literal_secrets] == hidden
        assert not any(text in repr(settings) for text in hidden)


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (("--api-key", "abcd", "--verbose"), ["--api-key", "***", "--verbose"]),
        (("--token=abcd", "./data"), ["--token=***", "./data"]),
        (("--url", "https://ada:pw@a.example/x?key=1"), ["--url", "https://a.example/x?***"]),
        (("--password", "--next"), ["--password", "--next"]),
    ],
)
def test_arguments_are_shown_without_credentials(args: tuple[str, ...], shown: list[str]) -> None:
    assert shown_args(args) == shown


def test_settings_are_shown_with_names_of_secrets_only() -> None:
    settings = UpstreamSettings(
        url="https://a.example/mcp?key=abcd", headers={"A": "Bearer ${secret:TOKEN}", "B": "plain"}, level=2
    )
    assert shown_settings(settings) == {
        "url": "https://a.example/mcp?***",
        "headers": {"A": "${secret:TOKEN}", "B": "***"},
        "level": 2,
    }
