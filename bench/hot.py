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
from bench.sampling import Samples, sampling
from bench.servers import tools
from bench.servers.ceiling import Ceiling, Full
from bench.spread import Spread, ratios
from toolhall import Config, Toolhall

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

ROUNDS = 7
BREATH = 32  # calls between two turns of the loop, as many as connections in the other measurements
SOURCE = "/src/toolhall/"
SHOWN = 60


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
    """Markdown: both figures, then where Toolhall's time goes, seen in two ways."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        return uvloop.run(_profile(Path(folder), count))


async def _profile(folder: Path, count: int) -> str:
    with Toolhall(tools, config=Config(data=str(folder / "data"), calls_per_second=1e9, call_burst=1e9)) as hall:
        ours, ceiling = Fake(hall), Fake(Ceiling(Full(messages.KEY, folder / "record.jsonl")))
        seen = await _compared(ours, ceiling, count)
        with sampling() as samples:
            await ours.calls(count * 3)
        tracer = cProfile.Profile()
        tracer.enable()
        await ours.calls(count)
        tracer.disable()
        await asyncio.sleep(0.1)  # the last batch of records
    usual = Spread.of(seen["toolhall"]).median
    return "\n\n".join([_figures(seen), _sampled(samples, usual), _traced(pstats.Stats(tracer), count)])


async def _compared(ours: Fake, ceiling: Fake, count: int) -> dict[str, list[float]]:
    """CPU microseconds per call, in turn; a first round only warms up."""
    seen: dict[str, list[float]] = {"toolhall": [], "ceiling": []}
    for number in range(ROUNDS + 1):
        for name, fake in (("toolhall", ours), ("ceiling", ceiling)):
            start = time.process_time()
            await fake.calls(count // ROUNDS)
            microseconds = (time.process_time() - start) / (count // ROUNDS) * 1e6
            if number:
                seen[name].append(microseconds)
    return seen


def _figures(seen: dict[str, list[float]]) -> str:
    ours, ceiling = Spread.of(seen["toolhall"]), Spread.of(seen["ceiling"])
    ratio = ratios(seen["toolhall"], seen["ceiling"])
    return (
        "One modern tools/call from the ASGI scope to the last send, in process, no sockets, CPU of all threads:\n\n"
        f"- toolhall {ours.text(1)} µs\n- ceiling full {ceiling.text(1)} µs\n- ratio {ratio.text(2)}"
    )


def _sampled(samples: Samples, microseconds: float) -> str:
    """Microseconds of one call, shared out by how often a function was seen."""
    share = microseconds / samples.total
    rows = [
        f"| {seen * share:.1f} | {samples.own[code] * share:.1f} | `{_where(code.co_filename)} {code.co_qualname}` |"
        for code, seen in samples.inclusive.most_common()
        if SOURCE in code.co_filename or samples.own[code] * share > 1
    ]
    head = f"Sampled ({samples.total:,} looks), with what a function calls and without; C counts as its caller's."
    return "\n".join([f"{head}\n", "| µs with | µs own | function |\n|--:|--:|---|", *rows[:SHOWN]])


def _traced(stats: pstats.Stats, count: int) -> str:
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats  # type: ignore[attr-defined]
    own_times = [(own / count * 1e6, calls / count, key) for key, (_, calls, own, _, _) in entries.items()]
    rows = [
        f"| {own:.2f} | {calls:.2f} | `{_where(file)} {name}`{f' line {line}' if line else ''} |"
        for own, calls, (file, line, name) in sorted(own_times, reverse=True)[:SHOWN]
    ]
    head = "Traced by cProfile, which makes every Python call dearer: read the order and the number of calls."
    return "\n".join([f"{head}\n", "| µs own | calls | function |\n|--:|--:|---|", *rows])


def _where(file: str) -> str:
    if SOURCE in file:
        return file.split(SOURCE)[1]
    return "" if file == "~" else "/".join(Path(file).parts[-2:])
