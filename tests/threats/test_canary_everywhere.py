# ruff: noqa: N802 - tests carry the names of their rows
"""G7, G8, J4: secrets and tokens that calls of every dialect used are in no byte that the hall wrote or sent."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.properties.callers.ways import Call
from tests.servers import http_server as answering
from tests.servers.authority import Authority, authority
from tests.servers.dialect_clients import ALL_DIALECT_CLIENTS
from tests.servers.served_hall import SECRET as CLIENT_SECRET
from tests.servers.served_hall import NetworkBrowser, ServedHall, provider_config
from tests.threats.canary_tools import HOW, LOGGED, NAME
from tests.threats.lines import REVISIONS, HttpLine
from tests.threats.served import Served, serving
from tests.threats.test_secrets import call_messages
from tests.threats.traces import find_encodings
from tests.unit.redaction.secret_encodings import EVERY, FORMS

TOOLS = Path(__file__).with_name("canary_tools.py")
SECRET = "sk+Canary/ctT2NLLzPkkGoa"  # a line of its base64 begins with r, as the end of a line may
LOGGED_SECRET = "sk+Logged/8eR3nY1aKv5Uu"
BROUGHT = {"secrets": "sk+Brought/By-a-c4ller", "authorization": "tok+Brought/By-a-c4ller"}
REFUSED = "tok+Refused/Fr0m-a-caller"
WORD = "Ordinary+Word/of-n0body"  # what is looked for to see that looking works
MANAGED = ("secrets", "accounts", "providers", "keys", "grants", "factors", "approvals", "tools", "history", "audit")


class Evidence(NamedTuple):
    """Every byte that came out, by where; and every value that must not be there, by what it is."""

    places: dict[str, bytes]
    values: dict[str, str]


class Collector:
    """Takes the spans."""

    def __init__(self) -> None:
        self.spans = b""

    def answer(self, asked: answering.HttpRequest) -> answering.HttpResponse:
        self.spans += asked.body
        return answering.HttpResponse(200)


@contextmanager
def running(folder: Path, acme: Authority, collector: str) -> Generator[Served]:
    """A hall that writes as much as it can: debug log, recordings, spans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TOOLS.parents[2]))
        patch.setenv("TOOLHALL_LOG_LEVEL", "debug")
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        settings = provider_config(acme.issuer, folder)
        takes = "Canary.keyed,Canary.linked"
        with serving(folder, TOOLS, record="Canary.*", accept_credentials=takes, **settings) as served:
            yield served


async def call_everything(hall: ServedHall, acme: Authority) -> None:
    """Every tool, in every dialect, and however it ends; with the first tokens each call renews them."""
    for make in ALL_DIALECT_CLIENTS:
        for how in HOW:
            for tool in ("keyed", "linked", "apart"):
                await make().send(hall, Call(None, "Canary", tool, {"how": how}))
            await make().send(hall, Call(None, "Canary", "open", {"how": how, "word": WORD}))
        acme.lifetime = 3600.0


def call_with_notices(hall: ServedHall) -> None:
    """In MCP, a client may listen while a tool runs."""
    for revision in REVISIONS:
        line = HttpLine(hall.port, revision)
        for tool in ("Canary_keyed", "Canary_linked", "Canary_apart"):
            messages = call_messages(line, tool, {"how": "returns"})
            assert [each.get("method") for each in messages].count("notifications/progress") >= 1
        call_messages(line, "Canary_open", {"how": "returns", "word": WORD})
        hall.seen += line.seen


def call_with_credentials(hall: ServedHall) -> None:
    """OXP: callers bring their own, where they may and where they may not, in right and wrong forms."""
    secret = {"secrets": [{"id": NAME, "value": BROUGHT["secrets"]}]}
    token = {"authorization": [{"id": "acme", "token": BROUGHT["authorization"]}]}
    for tool, context in (("keyed", secret), ("linked", token)):
        for how in HOW:
            assert _oxp(hall, tool, how, context) == 200
    wrong: list[tuple[str, Any]] = [
        ("apart", {"secrets": [{"id": NAME, "value": REFUSED}]}),
        ("keyed", {"secrets": [{"id": "OTHER", "value": REFUSED}]}),
        ("keyed", {"secrets": [{"id": NAME, "value": REFUSED}, {"id": NAME, "value": REFUSED}]}),
        ("keyed", {"secrets": [{"id": NAME, "values": REFUSED}]}),
        ("keyed", {"secrets": {NAME: REFUSED}}),
        ("linked", {"authorization": [{"id": "other", "token": REFUSED}]}),
    ]
    unneeded = {"authorization": [{"id": "acme", "token": REFUSED}]}
    assert _oxp(hall, "open", "returns", unneeded) == 200, "what a tool does not require is left aside"
    for tool, context in wrong:
        assert _oxp(hall, tool, "returns", context) == 400, context


def _oxp(hall: ServedHall, tool: str, how: str, context: Any) -> int:
    given = {"how": how, **({"word": WORD} if tool == "open" else {})}
    message = {"request": {"tool_id": f"Canary.{tool}", "input": given, "context": context}}
    return hall.ask("POST", "/oxp/tools/call", message).status


async def connect(hall: ServedHall, acme: Authority) -> None:
    """The whole way of a person: once in vain, then with the right answer."""
    acme.lifetime = 0.001
    status, missing = hall.ask("POST", "/tools/Canary/linked", {"how": "returns"})
    assert status == 403
    url = missing["error"]["details"]["url"]
    person = NetworkBrowser(hall)
    back = await person.agree(url)
    assert (await NetworkBrowser(hall).get(back)).status == 400
    assert (await person.get(back)).status == 200
    assert (await person.get(back)).status == 400, "an answer counts once"


def processes(served: Served) -> bytes:
    """What everybody on the machine may see of the process and its children."""
    found = b""
    for pid in (served.process.pid, *served.children):
        files = ("cmdline", "environ", "comm", "status")
        found += b"".join(Path(f"/proc/{pid}/{file}").read_bytes() for file in files)
    return found


def forbidden(acme: Authority) -> dict[str, str]:
    """Every value that nobody may see."""
    values = {"secret": SECRET, "client secret": CLIENT_SECRET, "refused": REFUSED}
    values |= {f"brought {kind}": value for kind, value in BROUGHT.items()}
    for number, each in enumerate(acme.issued):
        values |= {f"access token {number}": each.access, f"refresh token {number}": each.refresh or each.access}
    (exchanged,) = (each.form for each in acme.asked if each.form.get("grant_type") == "authorization_code")
    return values | {"verifier": exchanged["code_verifier"], "code": exchanged["code"]}


def evidence_of(folder: Path, acme: Authority, collector: Collector, url: str) -> Evidence:
    """Use everything, stop the hall, and gather what it left."""
    with running(folder, acme, url) as served:
        hall = ServedHall(served.port).registered_at(acme)
        for name, value in ((NAME, SECRET), (LOGGED, LOGGED_SECRET)):
            assert hall.ask("PUT", f"/api/secrets/{name}", {"value": value}).status == 200
        asyncio.run(connect(hall, acme))
        asyncio.run(call_everything(hall, acme))
        call_with_notices(hall)
        call_with_credentials(hall)
        assert hall.ask("POST", "/tools/Canary/logs_apart", {}).status == 200
        places = {"processes": processes(served), "metrics": hall.send("GET", "/metrics", b"", {}).body.encode()}
        managed = [hall.send("GET", f"/api/{each}", b"", {}) for each in MANAGED]
        assert [each.status for each in managed] == [200] * len(MANAGED)
        places["management"] = "".join(each.body for each in managed).encode()
        places |= files(served.data, "while it runs")
        assert served.stop() == 0
        assert served.process.stdout is not None
        assert served.process.stdout.read() == b"", "with --json there is one line, and nothing else"
        places |= {"answers": bytes(hall.seen), "log": served.log.encode(), "spans": collector.spans}
        return Evidence(places | files(served.data, "in the end"), forbidden(acme))


def files(data: Path, when: str) -> dict[str, bytes]:
    """All that is in the data folder; the names of files are written there too."""
    found = [path for path in data.rglob("*") if path.is_file()]
    return {f"{path.name} {when}": path.name.encode() + path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    collector = Collector()
    with authority() as acme, answering.run_http_server(collector.answer) as url:
        return evidence_of(tmp_path_factory.mktemp("canary"), acme, collector, url)


def found(evidence: Evidence, *places: str) -> dict[str, dict[str, set[str]]]:
    """Which forbidden values are in these places, and in which forms."""
    looked = {name: content for name, content in evidence.places.items() if name.startswith(places)}
    assert looked
    by_value = {what: find_encodings(value, looked) for what, value in evidence.values.items()}
    return {what: where for what, where in by_value.items() if where}


FILES = ("toolhall", "tools.lock", "audit", "recordings", "state")
OTHERS = ("answers", "log", "spans", "metrics", "management", "processes", "vault.key")
CONTROLS = {
    "answers": WORD, "log": WORD, "recordings": WORD, "toolhall.db-wal while": NAME, "toolhall.db in": NAME,
    "audit-": "Canary.keyed", "spans": "Canary_keyed", "metrics": "Canary.keyed", "management": NAME,
    "processes": "canary_tools.py",
}  # fmt: skip


def test_secret_search_finds_allowed_words_in_every_place_and_encoding(evidence: Evidence) -> None:
    """In every place something that may be there; in answers and log, what the tools told in every form."""
    for place, control in CONTROLS.items():
        looked = {name: content for name, content in evidence.places.items() if name.startswith(place)}
        assert looked.keys() == find_encodings(control, looked).keys(), place
    for place in ("answers", "log"):
        forms = {form.removesuffix(", in json") for form in find_encodings(WORD, evidence.places)[place]}
        assert forms >= FORMS.keys(), place
    assert evidence.places["answers"].count(b"[redacted]") > len(ALL_DIALECT_CLIENTS) * len(EVERY)
    assert evidence.places["log"].count(b"[redacted]") > len(ALL_DIALECT_CLIENTS) * len(EVERY)
    assert len([what for what in evidence.values if what.startswith("access token")]) > 3, "tokens were renewed"


@pytest.mark.threat("G7")
def test_G7_secrets_and_tokens_are_in_no_answer_of_any_dialect(evidence: Evidence) -> None:
    """Neither secret nor token nor what a caller brought is in a result, an error, a notice, a page or a header."""
    assert found(evidence, "answers", "management") == {}


@pytest.mark.threat("G8")
def test_G8_secrets_and_tokens_are_in_no_log_line_span_or_metric(evidence: Evidence) -> None:
    """At the level of debug, with spans sent, and with tools that log it in every form."""
    assert found(evidence, "log", "spans", "metrics") == {}


@pytest.mark.threat("G8")
def test_G8_secrets_and_tokens_are_in_no_command_line_or_environment_of_the_processes(evidence: Evidence) -> None:
    """Neither command line nor environment of the hall and of the workers that it gave secrets to."""
    assert found(evidence, "processes") == {}


@pytest.mark.threat("G8")
def test_G8_secret_logged_by_an_isolated_tool_is_in_no_output(evidence: Evidence) -> None:
    """A worker has the error output of the hall."""
    assert find_encodings(LOGGED_SECRET, evidence.places) == {}


@pytest.mark.threat("J4")
def test_J4_secrets_and_tokens_are_in_no_file_of_the_data_folder(evidence: Evidence) -> None:
    """Database, journal of the database, audit, recordings: while the hall runs, and after it has stopped."""
    assert found(evidence, *FILES) == {}
    assert all(name.startswith(FILES + OTHERS) for name in evidence.places), (
        "a new kind of file is to be looked at, too"
    )
