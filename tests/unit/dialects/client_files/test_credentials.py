"""Credentials in settings are found by name or shape and moved to secrets; packages without a version are named."""

import pytest

from toolhall.dialects.client_files.credentials import credentials_in, move_credentials, unpinned_package
from toolhall.dialects.client_files.server import name_for_command, name_for_url, safe_name
from toolhall.model.upstream import UpstreamSettings

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLW9mLW5vYm9keQ"


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("GITHUB_TOKEN", "abcdefgh", True),
        ("WHATEVER", "ghp_aVerySecretToken0123456789", True),
        ("SESSION", JWT, True),
        ("DB_PASSWORD", "hunter2", True),
        ("API_KEY", "${secret:API_KEY}", False),
        ("AUTH_TYPE", "bearer", False),
        ("TOKEN_FILE", "/run/secrets/token", False),
        ("TOKEN", "true", False),
        ("LOG_LEVEL", "debug", False),
        ("PIN", "abc", False),
    ],
)
def test_variable_is_a_credential_by_its_name_or_its_shape(name: str, value: str, found: bool) -> None:
    settings = UpstreamSettings(command="a", env={name: value})
    assert [each.name for each in credentials_in(settings)] == ([name] if found else [])


def test_moved_credentials_leave_references_and_the_scheme() -> None:
    settings = UpstreamSettings(
        url="https://a.example/mcp",
        headers={"Authorization": "Bearer abcdefgh", "X-Api-Key": "key-1234", "X-Mode": "fast"},
    )
    after, secrets = move_credentials("my-docs", settings)
    assert after.headers == {
        "Authorization": "Bearer ${secret:MY_DOCS_AUTHORIZATION}",
        "X-Api-Key": "${secret:MY_DOCS_X_API_KEY}",
        "X-Mode": "fast",
    }
    assert {name: each.reveal() for name, each in secrets.items()} == {
        "MY_DOCS_AUTHORIZATION": "abcdefgh",
        "MY_DOCS_X_API_KEY": "key-1234",
    }
    github = UpstreamSettings(command="a", env={"GITHUB_TOKEN": "abcdefgh"})
    assert [*move_credentials("github", github)[1]] == ["GITHUB_TOKEN"], "the name is not there twice"
    assert credentials_in(after) == ()
    assert move_credentials("my-docs", after) == (after, {})


def test_credentials_in_arguments_and_the_query_are_found_without_their_values() -> None:
    settings = UpstreamSettings(command="a", args=("--api-key", "abcdefgh", "--token=ijklmnop", "./data"))
    assert [(each.part, each.name) for each in credentials_in(settings)] == [("args", "--api-key"), ("args", "--token")]
    url = UpstreamSettings(url="https://a.example/mcp?api_key=abcdefghijkl")
    assert [(each.part, each.name) for each in credentials_in(url)] == [("url", "query")]


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("npx -y server-files", "server-files"),
        ("npx -y @scope/server-files", "@scope/server-files"),
        ("npx -y @scope/server-files@latest", "@scope/server-files@latest"),
        ("npx -y @scope/server-files@2026.1.14 ./data", None),
        ("npx.cmd server-files@^1", "server-files@^1"),
        ("npx --package=server-files@1.2.3 run-it", None),
        ("npx -p server-files run-it", "server-files"),
        ("cmd /c npx -y server-files", "server-files"),
        ("uvx notes-mcp", "notes-mcp"),
        ("uvx notes-mcp==0.4.1", None),
        ("uvx notes-mcp@0.4.1", None),
        ("uvx --from notes-mcp notes", "notes-mcp"),
        ("uvx --python 3.12 notes-mcp==0.4.1", None),
        ("uvx --from git+https://example.com/x.git notes", None),
        ("docker run -i --rm -e TOKEN ghcr.io/a/b:1.2.3", None),
        ("docker run -i --rm -e TOKEN ghcr.io/a/b", "ghcr.io/a/b"),
        ("docker run -i localhost:5000/a/b:latest", "localhost:5000/a/b:latest"),
        ("docker run -i a/b@sha256:0123", None),
        ("npx ./local-server", None),
        ("npx", None),
        ("python server.py", None),
    ],
)
def test_package_without_an_exact_version_is_named(command: str, package: str | None) -> None:
    program, *args = command.split()
    assert unpinned_package(program, tuple(args)) == package


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (safe_name("io.github.someone/clock"), "clock"),
        (safe_name("My Server!"), "My-Server"),
        (safe_name("天気"), "server"),
        (safe_name("x" * 80), "x" * 40),
        (safe_name("Toolhall"), "Toolhall-server"),
        (name_for_url("mcp.example.com"), "example"),
        (name_for_url("docs.mcp.cloud.example-two.com"), "example-two"),
        (name_for_url("127.0.0.1"), "127-0-0-1"),
        (name_for_url("localhost"), "localhost"),
        (name_for_command("npx", ("-y", "@scope/server-files@2026.1.14", "./data")), "server-files"),
        (name_for_command("uvx", ("notes-mcp==0.4.1",)), "notes-mcp"),
        (name_for_command("python", ("/srv/weather.py",)), "weather"),
        (name_for_command("docker", ("run", "-i", "--rm", "ghcr.io/a/github:1.2.3")), "github"),
        (name_for_command("/usr/local/bin/files-server", ()), "files-server"),
    ],
)
def test_names_are_made_from_keys_hosts_and_packages(made: str, expected: str) -> None:
    assert made == expected
