"""The examples work as they are served: with a secret, and with an account at a stand-in, as OXP tells the story."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.harness.browser import Browser
from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from tests.harness.processes import ServerProcess
from tests.properties.callers.desk import OBJECT
from tests.properties.callers.ways import OK, Call
from tests.servers.dialect_clients import ALL_DIALECT_CLIENTS
from tests.servers.served_hall import ServedHall

KEY = "SK" + "0123456789abcdef" * 2
READ: dict[str, Any] = {"tool_id": "Gmail.GetEmails@1.2.0", "input": {"query": "book"}}
SEND: dict[str, Any] = {"tool_id": "SMS.Send@0.1.2", "input": {"to": "+4915112345678", "message": "hello"}}
FOUND = [{"id": "18f0c1a2b3d40002", "subject": "Your book is due", "snippet": "Please bring it back by Monday."}]


def called(server: ServerProcess, call: dict[str, Any]) -> tuple[int, Any]:
    """The status of an OXP call, and what matters of its answer."""
    body = json.dumps({"$schema": "urn:oxp:1.0", "request": call}).encode()
    request = Request(f"{server.url}/oxp/tools/call", body, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=patience()) as reply:
            return reply.status, json.load(reply)["result"]["value"]
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)["missing_requirements"]


def link(server: ServerProcess) -> dict[str, str]:
    """Where the account is connected that the tool lacks."""
    status, missing = called(server, READ)
    assert (status, list(missing)) == (400, ["authorization"])
    (lacks,) = missing["authorization"]
    return dict(lacks)


def progress(lacks: dict[str, str]) -> Any:
    """How far that is."""
    with urlopen(lacks["check_url"], timeout=patience()) as reply:
        return json.load(reply)


def test_example_sms_once_its_secret_is_set_sends_the_message(cli: CliRunner) -> None:
    with cli.serve() as server:
        assert called(server, SEND) == (400, {"secrets": [{"id": "TWILIO_API_KEY"}]})
        assert cli.run("secret", "set", "TWILIO_API_KEY", "--url", server.url, text=f"{KEY}\n").code == 0
        assert called(server, SEND) == (200, {"status": "queued"})
    words = ["to=+4915112345678", "message=hello", "--yes", "--json"]
    assert cli.run("call", "SMS_Send", *words).json()["structuredContent"] == {"status": "queued"}


def test_example_gmail_while_its_account_is_connected_reads_mail(cli: CliRunner) -> None:
    with cli.serve() as server:
        lacks = link(server)
        assert progress(lacks) == {"status": "pending"}
        assert "The account is linked" in Browser().connect(lacks["url"])
        assert progress(lacks) == {"status": "completed"}
        assert called(server, READ) == (200, {"emails": FOUND})
        (account,) = cli.run("account", "list", "--url", server.url, "--json").json()
        assert cli.run("account", "disconnect", account["id"], "--yes", "--url", server.url).code == 0
        again = link(server)
        assert again["id"] != lacks["id"]
        assert "Access was denied" in Browser().connect(again["url"], "deny")
        assert progress(again) == {"status": "failed"}


@pytest.mark.parametrize("ways", [("--workers", "2"), ("--reload",)], ids=lambda ways: str(ways[0]))
def test_example_stand_ins_with_several_workers_are_the_same(cli: CliRunner, ways: tuple[str, ...]) -> None:
    with cli.serve(*ways) as server:
        Browser().connect(link(server)["url"])
        for _ in range(6):  # whichever is asked
            assert called(server, READ) == (200, {"emails": FOUND})


def test_example_stand_in_of_another_day_is_not_reused(cli: CliRunner) -> None:
    """It has forgotten everything, and tokens of the one before are not sent to it."""
    for _ in range(2):
        with cli.serve() as server:
            Browser().connect(link(server)["url"])
            assert called(server, READ) == (200, {"emails": FOUND})


def test_example_stand_ins_for_an_own_target_are_not_started(cli: CliRunner) -> None:
    (cli.folder / "mine.py").write_text("from toolhall.examples.gmail import Gmail\n\ngmail = Gmail()\n")
    with cli.serve("mine.py") as server:
        assert called(server, READ)[0] == 400
        assert cli.run("account", "providers", "--url", server.url, "--json").json() == []


async def test_example_tools_in_every_dialect_run(cli: CliRunner) -> None:
    with cli.serve() as server:
        assert cli.run("secret", "set", "TWILIO_API_KEY", "--url", server.url, text=f"{KEY}\n").code == 0
        assert "The account is linked" in Browser().connect(link(server)["url"])
        hall = ServedHall(urlsplit(server.url).port or 0)
        for way in (make() for make in ALL_DIALECT_CLIENTS):
            sent = way.read(await way.send(hall, Call(None, "SMS", "Send", SEND["input"])), OBJECT)
            assert (sent.word, sent.what) == (OK, {"status": "queued"}), way.dialect
            read = way.read(await way.send(hall, Call(None, "Gmail", "GetEmails", READ["input"])), OBJECT)
            assert (read.word, read.what) == (OK, {"emails": FOUND}), way.dialect
