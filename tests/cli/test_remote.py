"""`--url`: over MCP in both eras, and against servers that mean no good."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.harness.cli import KIT, CliRunner
from toolhall import Config, Toolhall, tool
from toolhall.cli.clients import http as wire
from toolhall.cli.clients.base import ToolInfo, find_tool, read_tool_info
from toolhall.cli.clients.http import parse_endpoint
from toolhall.cli.clients.mcp import McpConnection, McpRequester, fetch_tool_documents
from toolhall.cli.clients.remote import RemoteToolClient
from toolhall.cli.errors import CallTimeout, CommandError
from toolhall.dialects.mcp import client_results

TOOL = {"name": "only", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": ["a"]}}


class Recorder:
    """An attendant that remembers what it heard, and accepts everything."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Remember it."""
        self.heard.append((done, total, message))

    def log(self, level: str, data: Any) -> None:
        """Remember it."""
        self.heard.append((level, data))

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Fill in the form."""
        self.heard.append((method, params["message"]))
        return {"action": "accept", "content": {"name": "Ada", "age": 36}}


class Stub(BaseHTTPRequestHandler):
    """Answers each message as the test says."""

    answers: Callable[["Stub", dict[str, Any]], None]

    def do_POST(self) -> None:
        """Read one message and answer it."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        type(self).answers(self, json.loads(body))

    def do_DELETE(self) -> None:
        """End the session."""
        self.reply(200)

    def reply(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        """Send a whole reply."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def result(self, message: dict[str, Any], result: object, **headers: str) -> None:
        """Answer a request."""
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode(), **headers)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
        """Say nothing."""


@contextlib.contextmanager
def stub(answers: Callable[[Stub, dict[str, Any]], None]) -> Generator[str, None, None]:
    """A server of the test's own."""
    kind = type("Answering", (Stub,), {"answers": answers})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def old_server(outcome: object) -> Callable[[Stub, dict[str, Any]], None]:
    """A server that knows the older revisions only, with one tool."""

    def answers(http: Stub, message: dict[str, Any]) -> None:
        match message:
            case {"method": "initialize"}:
                chosen = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}
                http.result(message, chosen, Mcp_Session_Id="s1")
            case _ if http.headers.get("mcp-session-id") != "s1":
                error = {"code": -32000, "message": "Bad Request: no session"}
                http.reply(400, json.dumps({"jsonrpc": "2.0", "id": "server-error", "error": error}).encode())
            case {"method": "tools/list", "params": {"cursor": "next"}}:
                http.result(message, {"tools": [TOOL]})
            case {"method": "tools/list"}:
                http.result(message, {"tools": [], "nextCursor": "next"})
            case {"method": "tools/call"}:
                http.result(message, outcome)
            case _:
                http.reply(202)

    return answers


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str, None, None]:
    """A real server for all tests here."""
    with CliRunner(tmp_path_factory.mktemp("served")).serve(KIT) as server:
        yield server.url


def offer(client: McpRequester, name: str) -> ToolInfo:
    found = find_tool([each for each in map(read_tool_info, fetch_tool_documents(client)) if each], name)
    assert found is not None
    return found


def legacy(url: str, revision: str) -> McpConnection:
    return McpConnection(parse_endpoint(url), revision)


def test_remote_call_in_the_newest_revision_prints_the_result(cli: CliRunner, url: str) -> None:
    done = cli.run("call", "Shop_sell", "what=hat", "size=large", "--yes", "--url", url, "--json")
    assert done.json() == {"content": [{"type": "text", "text": "sold a large hat"}], "isError": False}
    record = json.loads((cli.data / "calls.jsonl").read_text())
    assert (record["where"], record["tool"], record["outcome"]) == (f"{url}/mcp", "Shop.sell@2.1.0", "ok")


def test_remote_call_of_a_writing_tool_asks_first(cli: CliRunner, url: str) -> None:
    done = cli.run("call", "Shop_sell", "what=hat", "--url", url)
    assert done.code == 1
    assert "add --yes" in done.error_line()


def test_remote_call_of_a_slow_server_times_out(cli: CliRunner, url: str) -> None:
    done = cli.run("call", "wait", "--timeout", "0.3", "--url", url, "--json")
    assert done.code == 1
    assert "no answer within 0.3 seconds" in done.error_line()
    assert json.loads((cli.data / "calls.jsonl").read_text())["outcome"] == "timed_out"


def test_remote_call_in_the_newest_revision_answers_questions_by_calling_again(url: str) -> None:
    recorder = Recorder()
    with contextlib.closing(McpConnection(parse_endpoint(url))) as client:
        result = client.call(offer(client, "invite"), {}, recorder, 10)
    assert result["content"][0]["text"] == "Ada (36, False)"
    assert recorder.heard == [("elicitation/create", "Who comes?")]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_remote_call_in_older_revisions_answers_questions_while_it_runs(url: str, revision: str) -> None:
    client, recorder = legacy(url, revision), Recorder()
    result = client.call(offer(client, "invite"), {}, recorder, 10)
    assert result["content"][0]["text"] == "Ada (36, False)"
    assert client.revision == revision
    client.close()


def test_remote_call_with_progress_and_logs_passes_them_on(url: str) -> None:
    for client in (McpConnection(parse_endpoint(url)), legacy(url, "2025-11-25")):
        recorder = Recorder()
        result = client.call(offer(client, "chatter"), {"pause": 0.01}, recorder, 10)
        assert result["content"][0]["text"] == "done"
        assert recorder.heard[:2] == [(1, 3, "step 1"), ("info", "line 1")]
        assert len(recorder.heard) == 6
        client.close()


def test_remote_call_with_a_cut_stream_resumes_it(url: str) -> None:
    client = legacy(url, "2025-11-25")
    result = client.call(offer(client, "later"), {}, Recorder(), 10)
    assert result["content"][0]["text"] == "later"
    client.close()


@pytest.mark.parametrize("region", ["eu", "", " padded ", "日本", "=?base64?ZXU=?=", "a\nb"])
def test_remote_call_of_a_tool_with_header_arguments_repeats_them(url: str, region: str) -> None:
    with contextlib.closing(McpConnection(parse_endpoint(url))) as client:
        result = client.call(offer(client, "route"), {"region": region}, Recorder(), 10)
    assert result["content"][0]["text"] == f"to {region}"


def test_remote_server_of_an_older_revision_gets_a_handshake() -> None:
    with stub(old_server({"content": [], "structuredContent": {"a": 1}})) as url:
        source = RemoteToolClient(url)
        (only,) = source.tools()
        assert source.call(only, {}, Recorder(), 5).structured == {"a": 1}
        assert source.render("mcp@2025-06-18").documents == [TOOL]
        assert source.render("anthropic", only).documents[0]["name"] == TOOL["name"]  # written here: it has no listing
        with pytest.raises(CommandError, match="does not speak MCP 2025-11-25"):
            source.render("mcp@2025-11-25")
        source.close()


def test_remote_result_that_breaks_its_schema_is_refused(cli: CliRunner) -> None:
    with stub(old_server({"content": [], "structuredContent": {"b": 1}})) as url:
        done = cli.run("call", "only", "--yes", "--url", url, "--json")
    assert (done.code, done.out) == (1, "")
    assert "not what its output schema promises" in done.error_line()
    assert json.loads((cli.data / "calls.jsonl").read_text())["outcome"] == "bad_output"


def test_remote_result_without_promised_structure_is_refused(cli: CliRunner) -> None:
    with stub(old_server({"content": [{"type": "text", "text": "trust me"}]})) as url:
        done = cli.run("call", "only", "--yes", "--url", url, "--json")
    assert done.code == 1
    assert "promised a structured result and sent none" in done.error_line()


def tools_at(url: str) -> list[ToolInfo]:
    """All tools of a server."""
    with contextlib.closing(RemoteToolClient(url)) as client:
        return client.tools()


def said(answers: Callable[[Stub, dict[str, Any]], None]) -> str:
    """How meeting such a server ends."""
    with stub(answers) as url, pytest.raises(CommandError) as failed:
        tools_at(url)
    return failed.value.message


def test_remote_redirect_is_not_followed() -> None:
    assert "(to http://127.0.0.1:1/secret); neither upgrades nor redirects" in said(
        lambda http, _: http.reply(307, Location="http://127.0.0.1:1/secret")
    )


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (200, b"<html>", "text/html", "is no MCP"),
        (200, b"{nope", "application/json", "is no MCP"),
        (404, b"Not Found", "text/plain", "HTTP 404; is this the URL of an MCP endpoint?"),
        (401, b"{}", "application/json", "wants a credential"),
        (500, b"oops", "text/plain", "HTTP 500"),
    ],
)
def test_remote_server_that_speaks_something_else_is_one_line(
    status: int, body: bytes, kind: str, message: str
) -> None:
    assert message in said(lambda http, _: http.reply(status, body, kind))


def test_remote_response_over_the_size_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_RESPONSE_BYTES", 1_000)
    assert "more than 1000 bytes" in said(lambda http, _: http.reply(200, b'"' + b"a" * 2_000 + b'"'))
    event = b"data: " + b"a" * 1_000_000 + b"\n\n"
    assert "more than 1000 bytes" in said(lambda http, _: http.reply(200, event, "text/event-stream"))


def test_remote_response_that_drips_ends_at_the_timeout() -> None:
    stop = threading.Event()

    def drip(http: Stub, _: dict[str, Any]) -> None:
        http.send_response(200)
        http.send_header("Content-Type", "text/event-stream")
        http.end_headers()
        with contextlib.suppress(OSError):
            while not stop.wait(0.02):
                http.wfile.write(b":\n")
                http.wfile.flush()

    with stub(drip) as url:
        with pytest.raises(CallTimeout):
            McpConnection(parse_endpoint(url), seconds=0.3)
        stop.set()


def test_remote_tool_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_results, "MAX_PAGES", 20)

    def answers(http: Stub, message: dict[str, Any]) -> None:
        known = {"supportedVersions": ["2026-07-28"], "tools": [], "nextCursor": f"c{message['id']}"}
        http.result(message, known)

    with stub(answers) as url, pytest.raises(CommandError, match="more than 20 pages"):
        tools_at(url)


def test_remote_tool_with_a_wrong_header_is_left_out() -> None:
    bad = {"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}

    def answers(http: Stub, message: dict[str, Any]) -> None:
        tools = [TOOL, {"name": "bad", "inputSchema": bad}, {"name": 7}, "no tool"]
        http.result(message, {"supportedVersions": ["2026-07-28"], "tools": tools})

    with stub(answers) as url:
        assert [each.name for each in tools_at(url)] == ["only"]


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://h", "/mcp"),
        ("http://h:1/", "/mcp"),
        ("http://h/mcp", "/mcp"),
        ("https://h/a/mcp?key=s", "/a/mcp?key=s"),
        ("http://[::1]:9", "/mcp"),
    ],
)
def test_remote_url_as_base_or_endpoint_is_accepted(url: str, path: str) -> None:
    endpoint = parse_endpoint(url)
    assert endpoint.path == path
    assert "key=s" not in str(endpoint)


def test_remote_hall_with_search_lists_everything_to_commands(cli: CliRunner) -> None:
    cli.environment["TOOLHALL_SEARCH"] = "true"
    with cli.serve() as server:
        listed = [tool["name"] for tool in cli.run("list", "--url", server.url, "--json").json()]
        assert {"search_tools", "Calculator_Add"} <= set(listed)
        called = cli.run("call", "Calculator_Add", "a=1", "b=2", "--url", server.url, "--json")
        assert called.code == 0, called.err
        shown = cli.run("list", "--dialect", "mcp", "--url", server.url, "--json").json()
        assert "Calculator_Add" not in json.dumps(shown), "which is what its clients see"


@tool(effect="reads", level=3)
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


@contextlib.contextmanager
def mounted() -> Generator[str, None, None]:
    """The base address of a hall in another application."""
    with (
        Toolhall(greet, config=Config(levels={"test_remote.greet": 6})) as hall,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        app = Starlette(routes=[Mount("/hall", hall)], lifespan=hall.lifespan)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/hall"
        finally:
            server.should_exit = True
            thread.join()


def test_remote_hall_mounted_below_a_path_is_found_by_every_command(cli: CliRunner) -> None:
    with mounted() as base:  # the hall is in this process, and its threads must not be taken for the command's
        at = ["--url", base, "--json"]
        (found,) = cli.run_process("list", *at).json()
        assert found["id"] == "test_remote.greet@0.1.0"
        assert found["effectiveLevel"] == 6, "what the operator says, as the hall tells it"
        assert cli.run_process("list", "--url", f"{base}/").out.splitlines()[1].split()[:3] == ["greet", "0.1.0", "6"]
        assert "level 6 (it states 3)" in cli.run_process("inspect", "--url", base).out
        assert cli.run_process("call", "greet", "name=Ada", *at).json()["content"][0]["text"] == "Hello, Ada"
        assert [found["id"] for found in cli.run_process("tool", "list", *at).json()] == ["test_remote.greet@0.1.0"]


def test_remote_server_with_its_endpoint_elsewhere_is_found(cli: CliRunner) -> None:
    inner = old_server({"content": []})

    def answers(http: Stub, message: dict[str, Any]) -> None:
        inner(http, message) if http.path == "/api/v1?team=a" else http.reply(404, b"no", "text/plain")

    with stub(answers) as server:
        listed = cli.run("list", "--url", f"{server}/api/v1?team=a")
        assert "only" in listed.out
        assert "does not say which level counts" in listed.err
        missing = cli.run("list", "--url", f"{server}/api/v2")
        assert "HTTP 404; is this the URL of an MCP endpoint?" in missing.error_line()


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("", "/mcp"),
        ("/", "/mcp"),
        ("/hall/", "/hall/mcp"),
        ("/a/mcp", "/a/mcp"),
        ("/mcp/", "/mcp/"),
        ("/amcp", "/amcp/mcp"),
    ],
)
def test_remote_endpoint_path_is_derived_from_the_url(path: str, wanted: str) -> None:
    assert wire.mcp_path(path) == wanted
