# ruff: noqa: N802 - tests carry the names of their rows
"""K5: a tool server in TypeScript is there for its hall; whoever else connects cannot keep the hall out."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.harness.http_client import HOST, http_request
from tests.harness.patience import patience
from tests.interfaces.running.typescript import MODULES, SDK

TOKEN = "token-0123456789"
CROWD, MOST_VISITORS = 200, 64
SERVE = """
import { serve, tool, toolkit } from './dist/index.js';
const input = { type: 'object', properties: {} };
const ping = tool({ name: 'ping', description: 'Answer.', input, run: async () => 'pong' });
const options = JSON.parse(process.argv[2]);
const server = await serve(toolkit({ name: 'Kit', version: '1.0.0', tools: [ping] }), options);
console.log(server.url);
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that serves one tool with the SDK as it is now."""
    folder = tmp_path_factory.mktemp("typescript")
    command = [str(MODULES / ".bin/tsc"), "-p", "tsconfig.build.json", "--outDir", str(folder / "dist")]
    done = subprocess.run(command, cwd=SDK, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stdout
    (folder / "node_modules").symlink_to(MODULES)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "serve.js").write_text(SERVE)
    return folder / "serve.js"


@asynccontextmanager
async def serving(script: Path) -> AsyncGenerator[int]:
    """The port it listens on."""
    options = json.dumps({"token": TOKEN})
    process = await asyncio.create_subprocess_exec("node", script, options, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(patience()):
            yield int((await process.stdout.readline()).decode().strip().rpartition(":")[2])
    finally:
        process.kill()
        await process.wait()


async def called(port: int) -> bytes:
    """The reply to a call of the hall."""
    body = json.dumps({"type": "tool_request", "id": "1", "tool": "Kit", "method": "ping", "params": {}}).encode()
    usual = [("Host", HOST), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(
        http_request("POST", "/hub", [*usual, ("Authorization", f"Bearer {TOKEN}"), ("Connection", "close")], body)
    )
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.threat("K5")
async def test_K5_idle_connections_without_a_token_are_evicted_while_calls_are_answered(script: Path) -> None:
    """Of connections that do not bring the token few stay, and the hall's calls are answered meanwhile."""
    async with serving(script) as port, contextlib.AsyncExitStack() as stack:
        readers = []
        for _ in range(CROWD):
            reader, writer = await asyncio.open_connection(HOST, port)
            stack.callback(writer.close)
            readers.append(reader)
        for _ in range(3):
            assert b'"pong"' in await called(port)
        for reader in readers[: CROWD - MOST_VISITORS]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""


@pytest.mark.threat("K5")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_K5_typescript_server_beyond_loopback_without_a_token_does_not_start(script: Path, host: str) -> None:
    """It says what to do instead."""
    command = ["node", str(script), json.dumps({"host": host})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode != 0
    assert "give serve() a token, or let it listen on 127.0.0.1" in done.stderr
