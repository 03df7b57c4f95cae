"""The hot path in this process, without sockets: CPU per call beside the ceiling's, and where the time goes."""

import asyncio
import cProfile
import pstats
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from bench import messages
from bench.servers import tools
from bench.servers.ceiling import Ceiling, Full
from bench.spread import Spread
from toolhall import Config, Toolhall

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

ROUNDS = 7
BREATH = 32  # calls between two turns of the loop, as many as connections in the other measurements
SOURCE = "/src/toolhall/"


class Fake:
    """The server's side of ASGI, as uvicorn plays it."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._body = messages.call()
        pairs = {"host": "127.0.0.1:8000", "content-length": str(len(self._body))} | messages.headers("tools/call")
        self._headers = [(name.encode(), value.encode()) for name, value in pairs.items()]
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        """The whole body at once."""
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Any) -> None:
        """Keep it, for one look."""
        self.sent.append(message)

    async def calls(self, count: int) -> None:
        """Make this many calls, one after the other."""
        for number in range(count):
            self.sent.clear()
            await self._app(self._scope(), self.receive, self.send)
            if number % BREATH == 0:
                await asyncio.sleep(0)
        if self.sent[0]["status"] != 200 or b'"structuredContent":{"result":9.5}' not in self.sent[1]["body"]:
            raise SystemExit(f"a wrong answer: {self.sent}")

    def _scope(self) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 50000),
            "scheme": "http",
            "root_path": "",
            "headers": self._headers,
            "state": {},
            "method": "POST",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
        }


def profile(count: int) -> str:
    """Markdown: both figures, then Toolhall's functions and libraries by their own time."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        return uvloop.run(_profile(Path(folder), count))


async def _profile(folder: Path, count: int) -> str:
    with Toolhall(tools, config=Config(data=str(folder / "data"), calls_per_second=1e9, call_burst=1e9)) as hall:
        ours, ceiling = Fake(hall), Fake(Ceiling(Full(messages.KEY, folder / "record.jsonl")))
        seen: dict[str, list[float]] = {"toolhall": [], "ceiling": []}
        for round_number in range(ROUNDS + 1):
            for name, fake in (("toolhall", ours), ("ceiling", ceiling)):
                microseconds = await _timed(fake, count // ROUNDS)
                if round_number:  # the first warms up
                    seen[name].append(microseconds)
        profiler = cProfile.Profile()
        profiler.enable()
        await ours.calls(count)
        profiler.disable()
        await asyncio.sleep(0.1)  # the last batch of records
    return _figures(seen) + _tables(pstats.Stats(profiler), count)


async def _timed(fake: Fake, count: int) -> float:
    start = time.process_time()
    await fake.calls(count)
    return (time.process_time() - start) / count * 1e6


def _figures(seen: dict[str, list[float]]) -> str:
    ours, ceiling = Spread.of(seen["toolhall"]), Spread.of(seen["ceiling"])
    ratio = Spread.of([mine / least for mine, least in zip(seen["toolhall"], seen["ceiling"], strict=True)])
    return (
        "One modern tools/call from the ASGI scope to the last send, in process, no sockets, CPU of all threads:\n\n"
        f"- toolhall {ours.text(1)} µs\n- ceiling full {ceiling.text(1)} µs\n- ratio {ratio.text(2)}\n\n"
    )


def _tables(stats: pstats.Stats, count: int) -> str:
    """Own time under the profiler, which makes every Python call dearer: read the order, not the sum."""
    functions: list[tuple[float, float, str]] = []
    files: dict[str, float] = {}
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats  # type: ignore[attr-defined]
    for (file, line, name), (_, calls, own, _, _) in entries.items():
        where = _where(file)
        functions.append((own / count * 1e6, calls / count, f"{where}:{line} {name}" if line else name))
        files[where] = files.get(where, 0.0) + own / count * 1e6
    rows = [f"| {own:.2f} | {calls:.2f} | `{name}` |" for own, calls, name in sorted(functions, reverse=True)[:45]]
    sums = [f"| {own:.2f} | `{name}` |" for name, own in sorted(files.items(), key=lambda item: -item[1])[:30]]
    return "\n".join(
        [
            "Own time under cProfile, which makes every Python call dearer: read the order, not the sum.\n",
            "| own µs | calls | function |\n|--:|--:|---|",
            *rows,
            "\n| own µs | file |\n|--:|---|",
            *sums,
        ]
    )


def _where(file: str) -> str:
    if SOURCE in file:
        return file.split(SOURCE)[1]
    return "built in" if file == "~" else "/".join(Path(file).parts[-2:])
