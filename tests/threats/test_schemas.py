# ruff: noqa: N802 - tests carry the names of their rows
"""F8 to F12: a schema cannot make the server fetch, hang or talk too much, whatever arguments it meets."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness.http_client import HOST, Connection
from tests.harness.lateness import Lateness, measured_lateness
from tests.harness.mcp_messages import MODERN, McpAnswer, encoded, request_in, tool_call
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess, environment, toolhall
from tests.harness.sync_mcp_client import SyncHttpMcpClient, SyncMcpClient, answer_of, call_tool
from tests.threats.hostile_tools import listing
from toolhall import Toolhall, tool

KIB = 1024
SOON = 0.3  # seconds; usual are milliseconds, at most 0.1, and 19 s with all validation in the loop
PING = encoded(request_in(MODERN, "server/discover"))


class ConnectionDetector:
    """A server that nobody should ever connect to."""

    def __init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self._socket.setblocking(False)
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}"

    @property
    def was_connected(self) -> bool:
        """Whether anybody connected."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@pytest.fixture
def detector() -> Iterator[ConnectionDetector]:
    """A server that nobody should ever connect to."""
    detector = ConnectionDetector()
    yield detector
    detector.close()


def hall_with_schema(schema: dict[str, Any], *, output: bool = False) -> Toolhall:
    """A hall with a tool that has this schema."""

    async def hostile(**arguments: Any) -> Any:
        return arguments

    options: Any = {"input": {"type": "object"}, "output": schema} if output else {"input": schema}
    return Toolhall(tool(name="hostile", **options)(hostile))


def refusal(schema: dict[str, Any], *, output: bool = False) -> str:
    """Why a tool with this schema cannot be served."""
    with pytest.raises((TypeError, ValueError)) as refused:
        hall_with_schema(schema, output=output)
    return str(refused.value)


def referring(keyword: str, target: str) -> dict[str, Any]:
    """A schema with a reference in one of its properties."""
    return {"type": "object", "properties": {"a": {keyword: target}}}


def fetching(url: str, file: str) -> dict[str, dict[str, Any]]:
    """Schemas that a careless validator would fetch something for."""
    return {
        "http": referring("$ref", f"{url}/schema.json"),
        "http_fragment": referring("$ref", f"{url}/schema.json#/a"),
        "file": referring("$ref", f"file://{file}"),
        "relative": referring("$ref", "other.json"),
        "protocol_relative": referring("$ref", f"//{url.removeprefix('http://')}/schema.json"),
        "dynamic": referring("$dynamicRef", f"{url}/schema.json#meta"),
        "recursive": referring("$recursiveRef", f"{url}/schema.json"),
        "dialect": {"type": "object", "$schema": f"{url}/dialect"},
        "inner_dialect": {"type": "object", "properties": {"a": {"$schema": f"{url}/dialect"}}},
        "base": {
            "type": "object",
            "$defs": {"a": {"$id": f"{url}/base/", "$ref": "other.json"}},
            "properties": {"a": {"$ref": "#/$defs/a"}},
        },
        "hidden": {"type": "object", "unheard-of": {"$ref": f"{url}/x"}, "properties": {"a": {"$ref": "#/unheard-of"}}},
        "draft_07": {**referring("$ref", f"{url}/x"), "$schema": "http://json-schema.org/draft-07/schema#"},
        "dependencies": {"type": "object", "dependentSchemas": {"a": {"$ref": f"{url}/x"}}},
        "vocabulary": {"type": "object", "$schema": f"{url}/meta", "$vocabulary": {f"{url}/v": True}},
    }


@pytest.mark.threat("F8")
@pytest.mark.parametrize("output", [False, True], ids=["input", "output"])
@pytest.mark.parametrize("variant", fetching("", ""))
def test_F8_schema_with_an_external_reference_is_refused_and_nothing_is_fetched(
    tmp_path: Path, detector: ConnectionDetector, variant: str, output: bool
) -> None:
    """A schema that leads outside is refused with the place, and nobody was asked for anything."""
    secret = tmp_path / "secret.json"
    secret.write_text('{"type":"string","const":"secret"}')
    said = refusal(fetching(detector.url, str(secret))[variant], output=output)
    assert "/" in said, "the message names the place in the schema"
    assert not detector.was_connected


@pytest.mark.threat("F8")
@pytest.mark.parametrize("variant", ["http", "file", "dialect"])
def test_F8_server_with_an_external_schema_reference_does_not_start_and_names_the_tool(
    tmp_path: Path, detector: ConnectionDetector, variant: str
) -> None:
    """`toolhall serve` ends with one line that names the tool and what to change."""
    schema = fetching(detector.url, str(tmp_path / "secret.json"))[variant]
    file = tmp_path / "hostile.py"
    file.write_text(
        "from toolhall import tool\n\n"
        f"@tool(name='fetcher', input={schema!r})\nasync def fetcher(**arguments): return 1\n"
    )
    ended = subprocess.run(
        toolhall("serve", str(file), "--port", "0", "--json"),
        capture_output=True,
        timeout=patience(),
        check=False,
        env=environment(tmp_path, {}),
        cwd=tmp_path,
    )
    said = ended.stderr.decode()
    assert (ended.returncode, ended.stdout, said.count("\n")) == (1, b"", 1), said
    assert "fetcher" in said
    assert {"http": "$ref", "file": "$ref", "dialect": "$schema"}[variant] in said
    assert not detector.was_connected


PATTERNS = {
    "back_reference": r"(a+)\1",
    "look_ahead": r"(?=a)a",
    "look_behind": r"(?<=a)a",
    "atomic": r"(?>a+)b",
    "long": "a" * 513,
    "counted": r"((a{1,1000}){1,1000}){1,1000}",
    "broken": "(",
}


@pytest.mark.threat("F9")
@pytest.mark.parametrize("place", ["pattern", "patternProperties"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_F9_schema_pattern_that_needs_backtracking_is_refused(pattern: str, place: str) -> None:
    """What a linear engine cannot run is refused at once."""
    text = PATTERNS[pattern]
    started = time.thread_time()
    inner: dict[str, Any] = {"pattern": text} if place == "pattern" else {"patternProperties": {text: {}}}
    said = refusal({"type": "object", "properties": {"a": inner}})
    assert len(said) < 1_000
    assert time.thread_time() - started < 1


@pytest.mark.threat("F9")
def test_F9_pattern_with_nested_quantifiers_is_matched_in_linear_time(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """`^(a+)+$` meets a hundred thousand letters that almost match."""
    cpu = server.cpu
    for _ in range(5):
        assert call_tool(http, "tree", items="a" * 100_000 + "!").is_error
    assert server.cpu - cpu < 1.5


def nested(levels: int) -> dict[str, Any]:
    """A schema as deep as this."""
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


BOMBS: dict[str, dict[str, Any]] = {
    **{f"doubling_{levels}": listing(levels, {"type": "string"}) for levels in (16, 24, 40)},
    "deep": nested(40),
    "deep_not": {"type": "object", "not": {"not": {"not": nested(31)}}},
    "many": {"type": "object", "properties": {f"p{count}": {} for count in range(2_500)}},
    "large": {"type": "object", "description": "x" * 70_000},
    "loop": {"type": "object", "$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}},
    "loop_of_two": {
        "type": "object",
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        "properties": {"a": {"$ref": "#/$defs/a"}},
    },
    "loop_at_root": {"type": "object", "allOf": [{"$ref": "#"}]},
    "loop_by_not": {"type": "object", "not": {"$ref": "#"}},
}


@pytest.mark.threat("F10")
@pytest.mark.parametrize("bomb", BOMBS)
def test_F10_schema_that_multiplies_or_loops_is_refused_at_registration(bomb: str) -> None:
    """Refused at registration, before anything is compiled or unfolded."""
    started = time.thread_time()
    assert len(refusal(BOMBS[bomb])) < 1_000
    assert time.thread_time() - started < 1


class Ping(NamedTuple):
    """A request of somebody else, its answer, and how long the server was busy in between."""

    started: float
    ended: float
    busy: float


def ping(server: ServerProcess, connection: Connection) -> Ping:
    """Ask for something simple."""
    started, busy = time.monotonic(), server.loop_cpu
    connection.send(SyncHttpMcpClient(server.port, MODERN).request(PING))
    assert connection.reply().status == 200
    return Ping(started, time.monotonic(), server.loop_cpu - busy)


def worst(pings: list[Ping], machine: Lateness) -> float:
    """The longest that somebody else waited for the server's own work, without what the machine itself was late."""
    return max(min(ended - started, busy) - machine.late(SOON, started, ended) for started, ended, busy in pings)


def pings_during(server: ServerProcess, body: bytes) -> tuple[list[Ping], McpAnswer]:
    """What somebody else asks while this message is answered, and the answer."""
    line = SyncHttpMcpClient(server.port, MODERN)
    with Connection(server.port) as busy, Connection(server.port) as other:
        ping(server, other)
        busy.send(line.request(body))
        pings = [ping(server, other)]
        while not busy.answered:
            pings.append(ping(server, other))
        reply = busy.reply()
    return pings, answer_of(reply)


def json_list(size: int, item: str = '""') -> str:
    """A list of so many bytes."""
    return "[" + ",".join([item] * (size // (len(item) + 1))) + "]"


COSTLY = {
    "wide": ("wide", json_list(1_000_000)),
    "widest": ("widest", json_list(1_000_000)),
    "widest_matching": ("widest", json_list(1_000_000, '"xxxxx"')),
    "narrow": ("narrow", json_list(1_000_000)),
    "deep_tree": ("tree", "[" * 55 + "]" * 55),
    "tree_of_text": ("tree", json_list(1_000_000, '["a"]')),
    "one_pattern": ("tree", '"' + "a" * 1_000_000 + '!"'),
    "just_in_loop": ("wide", json_list(2_300)),
    "narrow_in_loop": ("narrow", json_list(4_000)),
    "narrow_large_in_loop": ("narrow", json_list(150_000)),
}


@pytest.mark.threat("F11")
@pytest.mark.parametrize("case", COSTLY)
def test_F11_costly_argument_validation_does_not_delay_other_callers(server: ServerProcess, case: str) -> None:
    """The worst accepted schema meets as much as may be sent; others are answered meanwhile."""
    name, items = COSTLY[case]
    body = encoded(tool_call(MODERN, name, {"items": "?"})).replace(b'"?"', items.encode())
    cpu = server.cpu
    with measured_lateness() as machine:
        pings, answer = pings_during(server, body)
    assert worst(pings, machine) < SOON
    assert len(answer.raw) < 8 * KIB
    assert server.cpu - cpu < 3


@pytest.mark.threat("F11")
def test_F11_ten_concurrent_costly_validations_do_not_delay_other_callers(server: ServerProcess) -> None:
    """Ten such calls at once wait for each other, not the others for them, and each is answered."""
    line = SyncHttpMcpClient(server.port, MODERN)
    body = encoded(tool_call(MODERN, "widest", {"items": "?"})).replace(b'"?"', json_list(500_000).encode())
    hostile = [Connection(server.port) for _ in range(10)]
    with measured_lateness() as machine, Connection(server.port) as other:
        for connection in hostile:
            connection.send(line.request(body))
        pings = [ping(server, other) for _ in range(20)]
    for connection in hostile:
        assert connection.reply().status == 200
        connection.close()
    assert worst(pings, machine) < SOON
    assert not call_tool(line, "narrow", items=["xxxxx"]).is_error


@pytest.mark.threat("F11")
def test_F11_costly_validation_ends_when_its_client_disconnects(server: ServerProcess) -> None:
    """Whoever hangs up on a costly check takes it along; the next one that needs the checker finds it free."""
    line = SyncHttpMcpClient(server.port, MODERN)
    hostile = encoded(tool_call(MODERN, "widest", {"items": ["xxxxx"] * 100_000}))
    fair = encoded(tool_call(MODERN, "wide", {"items": ["xxxxx"] * 500}))
    served = 0
    for _ in range(4):
        with Connection(server.port) as connection:
            connection.send(line.request(hostile))
            assert not connection.answered
        served += not line.ask(fair).is_error
    assert served, "each of them found the checker busy"  # on a loaded machine some are too late by themselves


MISTAKES: dict[str, tuple[str, Any]] = {
    "65536_errors": ("wide", {"items": [""] * 128}),
    "many_items": ("narrow", {"items": [""] * 1_300}),
    "more_items": ("narrow", {"items": [""] * 100_000}),
    "long_names": ("long_names", {"n" * 190: {f"{count:0190}": 1 for count in range(18)}}),
    "wide_names": ("long_names", {"\u96ea" * 190: {f"\u96ea{count}": 1 for count in range(100)}}),
    "emoji_names": ("long_names", {"\U0001f600" * 250: {f"\U0001f600{count}": 1 for count in range(200)}}),
    "unknown_names": ("touch", {f"{count:0250}": 1 for count in range(15)}),
    "unknown_wide_names": ("touch", {"\u96ea" * 250 + str(count): 1 for count in range(5)}),
    "many_unknown_names": ("touch", {f"name{count}": 1 for count in range(9_000)}),
}


@pytest.mark.threat("F12")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_F12_validation_error_for_many_mistakes_is_short_and_cheap(
    line: SyncMcpClient, server: ServerProcess, mistake: str
) -> None:
    """However much is wrong with the arguments, the answer is short and soon made."""
    name, arguments = MISTAKES[mistake]
    cpu = server.cpu
    answer = call_tool(line, name, **arguments)
    assert answer.is_error
    assert len(answer.raw) <= 8 * KIB
    assert server.cpu - cpu < 1
