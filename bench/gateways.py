"""What stands between a client and the tool: halls before tool servers and upstreams, and others' gateways."""

import json
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import messages
from bench.client import Client
from bench.forge import forge_call, register, start_forge
from bench.launch import (
    CLIENTS_PYTHON,
    FASTMCP,
    PYTHON,
    SERVERS,
    TOOLHALL,
    TOOLHALL_COMMAND,
    Server,
    ServerSpec,
    apart,
    start,
)
from bench.node_tools import install
from bench.process import Process, await_port, free_port
from bench.storm import anonymous

HALL, HALL_SOCKET, HALL_TYPESCRIPT = "toolhall", "toolhall socket", "toolhall typescript"
HALL_ALONE = "toolhall alone"
UPSTREAM, UPSTREAM_STREAM, UPSTREAM_STDIO = "toolhall upstream", "toolhall upstream stream", "toolhall upstream stdio"
UPSTREAMS = (UPSTREAM, UPSTREAM_STREAM, UPSTREAM_STDIO)
PROXY, PROXY_KEPT = "fastmcp proxy", "fastmcp proxy kept"
FORGE, FORGE_SESSION = "contextforge", "contextforge session"
# How the tool is called where the hall puts the toolkit's name before its own.
NAMES = {HALL_TYPESCRIPT: "tools_add", **dict.fromkeys(UPSTREAMS, "Peer_add")}
SYNC_SECONDS = 60.0


class Gateway(NamedTuple):
    """One process in the middle, and how the tool behind it is called."""

    server: Server
    call: messages.Spoken


@contextmanager
def gateways() -> Generator[dict[str, Gateway]]:
    """Start all gateways and check one response of each; at the end stop the backends before the gateways."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder, ExitStack() as stack:
        house = _House(Path(folder), stack)
        found = {HALL_ALONE: house.started(start(ServerSpec(TOOLHALL), house.folder(HALL_ALONE)))}
        tools = [str(TOOLHALL_COMMAND), "serve", str(SERVERS / "tools.py"), "--json", "--join"]
        found[HALL] = house.hall(HALL, tools)
        found[HALL_SOCKET] = house.hall(HALL_SOCKET, tools, "--socket")
        found[HALL_TYPESCRIPT] = house.hall(HALL_TYPESCRIPT, install(house.folder("node")))
        found[UPSTREAM] = house.front(UPSTREAM, {"url": house.stub("stub")})
        found[UPSTREAM_STREAM] = house.front(UPSTREAM_STREAM, {"url": house.stub("streaming stub", "--stream")})
        child = ["serve", str(SERVERS / "tools.py"), "--stdio", "--data", str(house.folder("child"))]
        found[UPSTREAM_STDIO] = house.front(UPSTREAM_STDIO, {"command": str(TOOLHALL_COMMAND), "args": child})
        upstream = house.started(start(ServerSpec(FASTMCP), house.folder(FASTMCP)))
        url = f"http://127.0.0.1:{upstream.port}/mcp"
        found[PROXY] = house.proxy(PROXY, url)
        found[PROXY_KEPT] = house.proxy(PROXY_KEPT, url, "--kept")
        ways = {name: Gateway(server, _call(NAMES.get(name, "add"))) for name, server in found.items()}
        for name, session in ((FORGE, False), (FORGE_SESSION, True)):
            forge = house.started(start_forge(name, house.folder(name), session=session))
            register(forge, url)
            ways[name] = Gateway(forge, forge_call(forge, session=session))
        for name, way in ways.items():
            _check(way, SYNC_SECONDS if name in UPSTREAMS else 0.0)
        yield ways


def _check(way: Gateway, seconds: float) -> None:
    """Check one response, which a hall can give once it has listed its upstream."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with Client(way.server.port) as client:
                client.call_in(way.call)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _call(tool: str) -> messages.Spoken:
    call = messages.mcp_call()
    return call._replace(
        headers=anonymous(call.headers) | {"mcp-name": tool}, body=call.body.replace('"add"', f'"{tool}"')
    )


class _House:
    """Starts processes, each in a folder of its own, and has them stopped."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def folder(self, name: str) -> Path:
        folder = self._folder / name.replace(" ", "-")
        folder.mkdir()
        return folder

    def started(self, server: Server) -> Server:
        self._stack.callback(server.process.stop)
        await_port(server.process, server.port)
        return server

    def hall(self, name: str, tools: Sequence[str], *more: str) -> Server:
        """A hall whose own tools are the example's, and a tool server that has joined it."""
        folder, port = self.folder(name), free_port()
        command = [str(TOOLHALL_COMMAND), "serve", "--data", str(folder), "--port", str(port)]
        hall = self.started(Server(Process(name, command, apart(folder)), port))
        place = apart(self.folder(f"{name} tools"))
        joining = Process(f"{name} tools", [*tools, f"http://127.0.0.1:{port}", *more], place, piped=True)
        self._stack.callback(joining.stop)
        if joining.popen.stdout is None or not joining.popen.stdout.readline():
            raise RuntimeError(f"{joining.name} did not join:\n{joining.said()}")
        return hall

    def front(self, name: str, upstream: Mapping[str, object]) -> Server:
        """A hall in front of one MCP server, whose tools have level 1 like all others here; measured without it."""
        folder, port = self.folder(name), free_port()
        lines = [f"{key} = {json.dumps(value)}" for key, value in {**upstream, "level": 1}.items()]
        (folder / "toolhall.toml").write_text("\n".join(["[upstreams.Peer]", *lines]))
        command = [str(TOOLHALL_COMMAND), "serve", "--data", str(folder / "data"), "--port", str(port)]
        return self.started(Server(Process(name, command, apart(folder), counts_children=False), port))

    def stub(self, name: str, *more: str) -> str:
        """The URL of an MCP server that answers at once."""
        port = free_port()
        command = [str(PYTHON), str(SERVERS / "stub_upstream.py"), "--port", str(port), *more]
        self.started(Server(Process(name, command, apart(self.folder(name))), port))
        return f"http://127.0.0.1:{port}/mcp"

    def proxy(self, name: str, url: str, *more: str) -> Server:
        port = free_port()
        command = [
            str(CLIENTS_PYTHON),
            str(SERVERS / "fastmcp_proxy.py"),
            "--port",
            str(port),
            "--upstream",
            url,
            *more,
        ]
        return self.started(Server(Process(name, command, apart(self.folder(name))), port))
