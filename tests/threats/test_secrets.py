# ruff: noqa: N802 - tests carry the names of their rows
"""G7, G8, I11: a secret that a call uses is in no answer, log, record or recording, in no form and in no pieces."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import patience
from tests.threats.leaky_tools import NAME
from tests.threats.lines import MODERN, PREFIX, REVISIONS, HttpLine, calling, encoded, messages_of, value
from tests.threats.served import Served, eventually, serving
from tests.unit.redaction.secret_encodings import EVERY, FORMS, SECRET

LEAKY = Path(__file__).with_name("leaky_tools.py")
PLACES = (
    "plain", "value", "key", "block", "image", "resource", "resource text", "link", "meta", "block meta", "error",
    "items", "content and value", "value and content",
)  # fmt: skip


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose tools show their secret, and which records their calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(LEAKY.parents[2]))
        with serving(tmp_path_factory.mktemp("leaky"), LEAKY, record="leaky_tools.*") as served:
            set_secret(served.port, NAME, SECRET)
            yield served


def set_secret(port: int, name: str, value: str) -> None:
    """Put it into the vault of a running hall, as its operator would."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=patience())) as connection:
        body, headers = json.dumps({"value": value}), {"content-type": "application/json"}
        connection.request("PUT", f"/api/secrets/{name}", body, headers)
        assert connection.getresponse().status == 200


def encoded_secret(form: str) -> str:
    """The secret in this form."""
    return EVERY[form](SECRET)


def call_messages(line: HttpLine, tool: str, arguments: dict[str, Any]) -> list[Any]:
    """Every message that came for one call, notices too."""
    message = calling(line.revision, tool, arguments)
    message["params"].setdefault("_meta", {})["progressToken"] = 1
    message["params"]["_meta"][f"{PREFIX}logLevel"] = "debug"
    answer = line.ask(encoded(message))
    return messages_of(answer.raw) if answer.raw.startswith((b"event", b"id", b"data", b":")) else [answer.message]


def texts(value: Any) -> str:
    """All texts in a value, in order; what is base64 in MCP as the bytes it stands for, too."""
    match value:
        case str():
            return value
        case {"blob": str(data)} | {"data": str(data), "mimeType": str()}:
            inside = base64.b64decode(data).decode("latin-1")
            return inside + "".join(texts(part) for key, part in value.items() if key not in ("blob", "data"))
        case dict():
            return "".join(key + texts(part) for key, part in value.items())
        case list():
            return "".join(map(texts, value))
        case _:
            return ""


@pytest.mark.threat("K10")
@pytest.mark.threat("G7")
@pytest.mark.parametrize("where", PLACES)
def test_G7_secret_in_any_encoding_and_any_part_of_a_result_is_redacted(leaky: Served, where: str) -> None:
    """In whatever form, and in whatever part of a result it stands."""
    line = HttpLine(leaky.port, MODERN)
    for form in EVERY:
        (answer,) = call_messages(line, "shows", {"form": form, "where": where})
        seen = texts(answer["result"])
        assert encoded_secret(form) not in seen, form
        assert "[redacted]" in seen, (form, answer)
    assert SECRET.encode() not in line.seen


@pytest.mark.threat("G7")
@pytest.mark.parametrize("form", FORMS)
def test_G7_secret_split_over_notifications_and_content_blocks_is_redacted(leaky: Served, form: str) -> None:
    """Cut at any place, over a real stream of events, no two pieces of it arrive."""
    line, whole = HttpLine(leaky.port, MODERN), encoded_secret(form)
    for cut in range(1, len(whole)):
        messages = call_messages(line, "in_pieces", {"form": form, "cut": cut})
        heard: dict[str, str] = {"blocks": texts(messages[-1]["result"]["content"])}
        for message in messages[:-1]:
            params = message["params"]
            heard[message["method"]] = heard.get(message["method"], "") + texts(
                params.get("message", params.get("data"))
            )
        assert len(messages) == 5
        for way, text in heard.items():
            assert whole not in text.replace("then", "").replace("text", ""), (cut, way)
            assert "[redacted]" in text, (cut, way)
            assert not (cut > len(whole) // 2 and whole[:cut] in text), (cut, way)
    assert SECRET.encode() not in line.seen


@pytest.mark.threat("G7")
@pytest.mark.parametrize("revision", REVISIONS)
def test_G7_secret_split_by_a_tool_in_a_thread_is_redacted_in_every_revision(leaky: Served, revision: str) -> None:
    """The same for a tool in a thread, in every revision."""
    line = HttpLine(leaky.port, revision)
    for cut in range(4, len(SECRET), 5):
        assert SECRET not in texts(call_messages(line, "in_pieces_in_thread", {"form": "raw", "cut": cut}))
    assert SECRET[4:].encode() not in line.seen


@pytest.mark.threat("G8")
@pytest.mark.parametrize("tool", ["refuses", "crashes", "crashes_in_thread"])
def test_G8_secret_in_errors_and_log_lines_is_redacted_in_every_encoding(leaky: Served, tool: str) -> None:
    """Raised, chained, logged by us or by a library: it is in no answer and in no line of the log."""
    line = HttpLine(leaky.port, MODERN)
    for form in EVERY:
        before = len(leaky.log)
        (answer,) = call_messages(line, tool, {"form": form})
        assert answer["result"]["isError"]
        assert encoded_secret(form) not in texts(answer)
        logged = leaky.log[before:]
        assert "[redacted]" in logged + texts(answer), form
        assert encoded_secret(form) not in logged, form
        assert json.dumps(encoded_secret(form))[1:-1] not in logged, form


@pytest.mark.threat("G8")
def test_G8_secret_is_in_no_log_audit_or_recording_file_in_any_encoding(leaky: Served) -> None:
    """Of all calls, also one that brings it as an argument, no file that the server writes has it in any form."""
    line = HttpLine(leaky.port, MODERN)
    call_messages(line, "takes", {"note": f"my key is {SECRET}"})
    call_messages(line, "shows", {"form": "base64", "where": "value"})
    call_messages(line, "crashes", {"form": "hex"})
    written = leaky.data / "recordings.jsonl"
    assert eventually(lambda: written.exists() and b"base64" in written.read_bytes())
    assert b"[redacted]" in written.read_bytes()
    files = [leaky.data.parent / "server.log", *(path for path in leaky.data.rglob("*") if path.is_file())]
    everything = b"".join(path.read_bytes() for path in files) + bytes(line.seen)
    assert len(files) > 2
    for form in EVERY:
        assert encoded_secret(form).encode() not in everything, form
        assert json.dumps(encoded_secret(form))[1:-1].encode() not in everything, form


@pytest.mark.threat("I11")
@pytest.mark.parametrize("tool", ["floods", "floods_in_thread"])
def test_I11_flood_of_progress_events_is_dropped_and_counted_and_the_call_answered(leaky: Served, tool: str) -> None:
    """Of a hundred thousand events few arrive, then one that says how many did not; the answer comes as ever."""
    line = HttpLine(leaky.port, MODERN)
    rss = leaky.rss
    *events, answer = call_messages(line, tool, {"count": 100_000})
    progress = [event for event in events if event["method"] == "notifications/progress"]
    assert 20 <= len(progress) < 400
    (last,) = [event for event in events if event["method"] == "notifications/message"]
    assert f"{100_000 - len(progress)} messages of this call were dropped" in last["params"]["data"]
    assert answer["result"]["content"][0]["text"] == "told"
    assert leaky.rss - rss < 50 * 1024 * 1024
    assert value(line.ask(encoded(calling(MODERN, "takes", {"note": "7"})))) == 7
