# ruff: noqa: N802 - tests carry the names of their rows
"""D2, D9: linked accounts in a served hall: what tokens are for, one refresh for all who call, and how they end."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import CliRunner
from tests.servers import account_tools
from tests.servers.authority import Authority, authority
from tests.servers.concurrent_calls import call_concurrently, open_connections
from tests.servers.served_hall import NetworkBrowser, ServedHall, provider_config
from tests.threats.guarded import PUBLIC_URL, inside
from tests.threats.issuer import issuing
from tests.threats.served import environment
from toolhall.config import Issuer

TOOLS = account_tools.__file__
MANY = 50
API = "https://api.acme.example/mail"
A, B = f"{PUBLIC_URL}/mcp/a", f"{PUBLIC_URL}/mcp/b"
SHORT = 0.001  # seconds: such a token is renewed for the next call


@pytest.fixture
def acme() -> Iterator[Authority]:
    with authority() as server:
        yield server


@pytest.fixture
def cli(tmp_path: Path, acme: Authority) -> CliRunner:
    """Where the operator types; the provider is set up."""
    cli = CliRunner(tmp_path)
    cli.environment = environment(tmp_path, provider_config(acme.issuer, tmp_path))
    return cli


def link(hall: ServedHall) -> str:
    """The page that a call is sent to."""
    status, said = hall.ask("POST", "/tools/Post/read", {})
    assert status == 403, said
    return str(said["error"]["details"]["url"])


def connect(hall: ServedHall, acme: Authority, lifetime: float) -> str:
    """Link the account, with a token of this many seconds; the link."""
    acme.lifetime = lifetime
    url = link(hall)
    assert asyncio.run(NetworkBrowser(hall).connect(url)).status == 200
    acme.lifetime = 3600.0
    return url


@pytest.mark.threat("D9")
@pytest.mark.parametrize("processes", [1, 2])
def test_D9_fifty_calls_with_an_expired_token_cause_one_refresh(
    cli: CliRunner, acme: Authority, processes: int
) -> None:
    """All have called before the provider answers; each gets the one new token, whichever process it asked."""
    with cli.serve(TOOLS, "--workers", str(processes)) as server:
        hall = ServedHall(int(server.url.rpartition(":")[2])).registered_at(acme)
        connect(hall, acme, SHORT)
        with open_connections(hall, MANY, processes) as lines:
            assert len(lines) == MANY
            answers = call_concurrently(acme, lines)
    assert [status for status, _ in answers] == [200] * MANY
    assert acme.count("/token", "refresh_token") == 1
    assert len({said["token"] for _, said in answers}) == 1
    assert len({said["process"] for _, said in answers}) == processes
    assert not acme.issued[-1].revoked


def test_oauth_grant_revoked_at_the_provider_makes_the_next_call_ask_for_a_new_link(
    cli: CliRunner, acme: Authority
) -> None:
    """The next refresh finds out; the person gets a new link, which works."""
    with cli.serve(TOOLS) as server:
        hall = ServedHall(int(server.url.rpartition(":")[2])).registered_at(acme)
        first = connect(hall, acme, SHORT)
        acme.revoke_all()
        second = connect(hall, acme, 3600.0)
        assert second != first
        assert hall.ask("POST", "/tools/Post/read", {}).status == 200
        (account,) = hall.ask("GET", "/api/accounts").value["accounts"]
        assert account["state"] == "connected"


def test_account_disconnect_by_cli_revokes_every_token_at_the_provider(cli: CliRunner, acme: Authority) -> None:
    """By the command line, at the hall that runs: its tokens are worth nothing there, and the next call asks anew."""
    with cli.serve(TOOLS) as server:
        hall = ServedHall(int(server.url.rpartition(":")[2])).registered_at(acme)
        connect(hall, acme, 3600.0)
        assert hall.ask("POST", "/tools/Post/read", {}).status == 200
        (account,) = cli.run("account", "list", "--url", hall.url, "--json").json()
        done = cli.run("account", "disconnect", account["id"], "--yes", "--url", hall.url)
        assert done.code == 0, done.err
        assert acme.count("/revoke") >= 1
        assert all(each.revoked for each in acme.issued)
        assert link(hall)


@pytest.mark.threat("D2")
def test_D2_resource_parameter_is_sent_with_authorization_exchange_and_refresh(cli: CliRunner, acme: Authority) -> None:
    """It is named where the person agrees, where the code is exchanged, and with every refresh (RFC 8707)."""
    client = {"client_id": "hall", "client_secret_file": str(cli.folder / "client-secret"), "resource": API}
    cli.environment = environment(cli.folder, provider_config(acme.issuer, cli.folder, **client))
    with cli.serve(TOOLS) as server:
        hall = ServedHall(int(server.url.rpartition(":")[2])).registered_at(acme)
        connect(hall, acme, SHORT)
        assert hall.ask("POST", "/tools/Post/read", {}).status == 200
    asked = [each.query if each.path == "/authorize" else each.form for each in acme.asked]
    named = [each["resource"] for each in asked if {"code_challenge", "grant_type"} & each.keys()]
    assert named == [API] * 3


@pytest.mark.threat("D2")
async def test_D2_jwt_whose_audience_is_another_resource_at_the_same_host_is_refused() -> None:
    """Of two halls at one host, each takes its own tokens only."""
    with issuing() as issuer:
        trusted = (Issuer(name="idp", issuer=issuer.url),)
        for mine, other in ((A, B), (B, A)):
            async with inside(issuers=trusted, resource=mine) as hall:
                for audience, status in ((mine, 200), (other, 401)):
                    token = issuer.token(aud=audience, scope="admin tools:*")
                    reply = await hall.send("GET", "/api/tools", headers={"Authorization": f"Bearer {token}"})
                    assert reply.status_code == status, audience
