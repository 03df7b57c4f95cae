"""`toolhall serve` over HTTP in one process: what it prints, how it starts and stops, what it refuses."""

import http.client
import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.http_client import request_url
from tests.harness.patience import patience
from toolhall.cli.clients.http import parse_endpoint
from toolhall.cli.errors import CommandError
from toolhall.cli.listen import listen
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28

OWN_HALL = """
from toolhall import Config, Toolhall, tool

@tool(effect="reads")
async def inside() -> str:
    return "in"

@tool
async def outside() -> str:
    return "out"

hall = Toolhall(inside, config=Config(name="own", port=0))
"""
RAISED = """
from toolhall import Config, Toolhall, tool

@tool(level=2)
async def burn(room: str) -> str:
    return room

hall = Toolhall(burn, config=Config(port=0, levels={"*": 9}))
"""
PLAIN = """
from toolhall import tool

@tool(effect="reads")
async def {name}() -> str:
    "A tool."
    return "{name}"
"""


def get(url: str, path: str = "/health") -> dict[str, Any]:
    answer: dict[str, Any] = request_url(urljoin(url, path)).json
    return answer


def post(url: str, path: str, body: dict[str, Any]) -> int:
    return request_url(urljoin(url, path), body).status


def names(cli: CliRunner, *words: str) -> list[str]:
    return [tool["name"] for tool in cli.run("list", *words, "--json").json()]


def test_serve_with_json_prints_its_url_first_and_answers(cli: CliRunner) -> None:
    with cli.serve() as server:
        assert list(server.first) == ["url", "pid", "console"]
        assert server.first["pid"] == server.process.pid
        assert server.url.startswith("http://127.0.0.1:")
        assert get(server.url)["tools"] == 11
    assert (cli.data / "state.key").exists()


def test_serve_at_terminal_shows_urls_and_a_client_snippet(cli: CliRunner) -> None:
    with cli.terminal("serve", KIT, "--port", "0") as terminal:
        shown = terminal.expect("Ctrl+C stops the server.")
        terminal.process.send_signal(signal.SIGINT)
        code, _ = terminal.end()
    assert code == 0
    url = shown.partition("MCP")[2].split()[0]
    by_url, by_command = (json.loads(part[: part.rindex("}") + 1]) for part in re.split(r"(?m)^(?=\{)", shown)[1:])
    assert by_url == {"mcpServers": {"kit": {"type": "http", "url": url}}}
    words = by_command["mcpServers"]["kit"]["args"]
    assert words[words.index("serve") :][:3] == ["serve", KIT, "--stdio"]
    assert "\x1b[" in shown


def test_serve_with_no_color_prints_no_colours(cli: CliRunner) -> None:
    cli.environment["NO_COLOR"] = "1"
    with cli.terminal("serve", "--port", "0") as terminal:
        shown = terminal.expect("Ctrl+C stops the server.").replace("\x1b[K", "")  # which clears a line
        assert "\x1b[" not in shown


def test_serve_output_of_tools_stays_out_of_stdout(cli: CliRunner) -> None:
    with cli.serve(KIT) as server:
        done = cli.run("call", "chatter", "--url", server.url, "--json")
        assert done.json()["content"][0]["text"] == "done"


def test_serve_with_an_open_stream_stops_at_once(cli: CliRunner) -> None:
    with cli.serve() as server:
        endpoint = parse_endpoint(server.url)
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=patience())
        terms = {
            "io.modelcontextprotocol/protocolVersion": REVISION_2026_07_28.name,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"notifications": {"toolsListChanged": True}, "_meta": terms}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
        headers = {"Content-Type": "application/json", "MCP-Protocol-Version": REVISION_2026_07_28.name}
        connection.request("POST", endpoint.path, body, headers | {"Mcp-Method": "subscriptions/listen"})
        stream = connection.getresponse()
        assert b"acknowledged" in stream.readline() + stream.readline()
        server.process.send_signal(signal.SIGTERM)
        assert b'"resultType":"complete"' in stream.read()
        connection.close()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--host", "0.0.0.0"], 78, "use --host 127.0.0.1"),
        (["--host", "example.org"], 78, "use --host 127.0.0.1"),
        (["--profile", "server"], 78, "make one with 'toolhall key create NAME --data"),
        (["--stdio", "--port", "1"], 2, "leave out --host, --port"),
        (["--dialect", "hub"], 2, "--dialect goes with --stdio"),
        (["--stdio", "--dialect", "oxp"], 2, "--dialect"),
        (["--reload", "--workers", "2"], 2, "leave out --workers"),
        (["--workers", "0"], 2, "--workers must be 1 or more"),
        (["--port", "70000"], 2, "between 0 and 65535"),
        (["--port", "x"], 2, "--port"),
        (["--join", "http://127.0.0.1"], 2, "--join needs the tools to run"),
        (["--config", "missing.toml"], 2, "there is no file missing.toml"),
        (["--data", "/dev/null/data"], 1, "choose another with --data"),
        (["missing.py"], 2, "there is no file missing.py"),
    ],
)
def test_serve_with_wrong_options_is_refused_with_its_exit_code(
    cli: CliRunner, words: list[str], code: int, said: str
) -> None:
    done = cli.run("serve", *words, "--json")
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()


def test_serve_on_any_loopback_address_answers(cli: CliRunner) -> None:
    with cli.serve("--host", "127.0.0.2") as server:
        assert server.url.startswith("http://127.0.0.2:")
        assert get(server.url)["tools"] == 11


def test_serve_on_a_taken_port_is_refused(cli: CliRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = cli.run_process("serve", "--port", str(taken.getsockname()[1]))
    assert done.code == 1
    assert "--port 0 for a free one" in done.error_line()


def test_serve_settings_come_from_file_environment_and_words(cli: CliRunner) -> None:
    (cli.folder / "toolhall.toml").write_text('port = 0\nname = "mine"\n')
    del cli.environment["TOOLHALL_DATA"]
    cli.environment["XDG_DATA_HOME"] = str(cli.folder / "xdg")
    with cli.terminal("serve") as terminal:
        assert '"mine": {' in terminal.expect("Ctrl+C")
    assert [path.name for path in (cli.folder / "xdg" / "toolhall" / "projects").glob("*/*.key")] == ["state.key"]
    (cli.folder / "toolhall.toml").write_text("prt = 0\n")
    assert "did you mean 'port'?" in cli.run("serve").error_line()
    cli.environment["TOOLHALL_LOG_LEVEL"] = "loud"
    assert "TOOLHALL_LOG_LEVEL" in cli.run("serve").error_line()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import missing_thing", "tools.py, line 1: No module named 'missing_thing'"),
        ("x = 1\ny = x.z", "tools.py, line 2: AttributeError"),
        ("def f(:\n  pass", "tools.py, line 1: SyntaxError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("x = 1", "defines no tools; mark a function with @tool"),
        ("from toolhall import tool\n@tool\ndef f(a): ...", "parameter 'a' has no type"),
        ("from toolhall import Toolkit\nclass K(Toolkit):\n  def __init__(self, a): ...", "serve an instance"),
    ],
)
def test_serve_of_a_target_that_cannot_be_loaded_names_the_line(cli: CliRunner, text: str, said: str) -> None:
    (cli.folder / "tools.py").write_text(text)
    done = cli.run("serve", "tools.py", "--port", "0")
    assert (done.code, done.out) == (1, "")
    assert said in done.error_line()


def test_serve_of_a_file_named_like_a_standard_module_hides_nothing(cli: CliRunner) -> None:
    (cli.folder / "calendar.py").write_text(f"import neighbour\n{PLAIN.format(name='lunch')}")
    (cli.folder / "neighbour.py").write_text("")
    with cli.serve("calendar.py", "--workers", "2") as server:
        assert names(cli, "--url", server.url) == ["lunch"]


def test_serve_of_a_missing_object_names_those_that_exist(cli: CliRunner) -> None:
    (cli.folder / "one.py").write_text(PLAIN.format(name="one"))
    done = cli.run("serve", "one.py:two", "--port", "0")
    assert done.code == 2
    assert "it has one" in done.error_line()


def test_serve_of_an_own_hall_with_more_tools_serves_both(cli: CliRunner) -> None:
    (cli.folder / "own.py").write_text(OWN_HALL)
    (cli.folder / "more.py").write_text(PLAIN.format(name="more"))
    with cli.serve("own.py", "more.py") as server:
        assert names(cli, "--url", server.url) == ["inside", "more"]


def test_serve_at_terminal_asks_for_approval_of_high_levels(cli: CliRunner) -> None:
    with cli.terminal("serve", KIT, "--port", "0") as terminal:
        url = terminal.expect("/mcp").rpartition("http")[2]
        terminal.expect("Ctrl+C stops the server.")
        for typed, code in (("y", 0), ("n", 1)):
            words = ["call", "Shop_burn", "what=a\u202e\x1b[2Jb", "--yes", "--json", "--url", f"http{url}"]
            with cli.start(*words) as caller:
                shown = terminal.expect("Run it? [y/N] ")
                assert "Shop.burn@2.1.0" in shown
                assert 'what = "a<U+202E><U+001B>[2Jb"' in shown
                terminal.type(typed)
                assert caller.wait(patience()) == code
        terminal.expect("Refused.")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end()[0] == 0


def test_serve_at_terminal_queues_three_approvals_at_most(cli: CliRunner) -> None:
    """C6: the fourth is refused at once, and the person is asked for the level that counts, not the one it states."""
    (cli.folder / "house.py").write_text(RAISED)
    with ThreadPoolExecutor(4) as callers, cli.terminal("serve", "house.py") as terminal:
        url = f"http{terminal.expect('/mcp').rpartition('http')[2]}"
        terminal.expect("Ctrl+C stops the server.")
        calls = [callers.submit(post, url, "/tools/house/burn", {"room": str(number)}) for number in range(4)]
        assert next(as_completed(calls, patience())).result() == 429
        for _ in range(3):
            assert "A call of level 9 needs your yes" in terminal.expect("Run it? [y/N] ")
            terminal.type("n")
            terminal.expect("Refused.")
        assert sorted(each.result(patience()) for each in calls) == [403, 403, 403, 429]
        assert "Run it?" not in terminal.seen
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end()[0] == 0


def test_serve_without_terminal_asks_nobody(cli: CliRunner) -> None:
    with cli.serve(KIT) as server:
        done = cli.run("call", "Shop_burn", "what=hat", "--yes", "--json", "--url", server.url)
    assert done.code == 1
    assert "/approve/" in done.error_line()


def test_serve_with_a_hanging_tool_thread_stops_at_once(cli: CliRunner) -> None:
    with cli.serve(KIT) as server:
        done = cli.run("call", "hang", "--timeout", "0.5", "--json", "--url", server.url)
        assert done.code == 1


def test_serve_on_a_taken_port_fails_in_one_short_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError) as caught:
            listen("127.0.0.1", port)
    assert caught.value.message == (
        f"cannot listen on 127.0.0.1 port {port} (address already in use);"
        " choose another with --port, or --port 0 for a free one"
    )
