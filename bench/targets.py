"""Targets of the project: one bound for each figure that a measure yields, all in one table.

A target is judged by the median of the rounds. Most are ratios of two figures that were measured in turn in one run,
because figures of different runs, let alone machines, cannot be compared.
"""

from typing import Literal, NamedTuple

from bench.report import Verdict
from bench.spread import Spread

AS_FRACTION = 0.2  # ratios below this are written as 1/n


class Target(NamedTuple):
    """A bound on one figure; without a unit, the figure is a ratio."""

    key: str  # begins with the measure that yields it
    what: str
    bound: float
    kind: Literal["at most", "at least"] = "at most"
    unit: str = ""

    def verdict(self, figure: Spread, note: str = "") -> Verdict:
        """Whether the median keeps the bound."""
        met = figure.median <= self.bound if self.kind == "at most" else figure.median >= self.bound
        unit = f" {self.unit}" if self.unit else ""
        return Verdict(self.key, met, figure.written(self._number) + unit + (f"; {note}" if note else ""))

    def bound_text(self) -> str:
        """`at most 0.65`."""
        return f"{self.kind} {self._number(self.bound)}{f' {self.unit}' if self.unit else ''}"

    def _number(self, value: float) -> str:
        if self.unit or value >= 100:
            return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
        return f"1/{1 / value:.1f}".removesuffix(".0") if 0 < value < AS_FRACTION < 1 else f"{value:.2f}"


TARGETS = {
    target.key: target
    for target in (
        Target("call.ceiling", "CPU of a bare `tools/call` over HTTP, against the ceiling `full`", 0.65),
        Target("call.fastmcp", "the same, against FastMCP", 1 / 30),
        Target("call.sdk", "the same, against the official SDK", 1 / 8),
        Target("call.session", "CPU of a call in a session of 2025-11-25, against the bare call", 1.3),
        Target("python.ceiling", "CPU of a bare call on Python 3.12 or newer, against the ceiling `full` there", 0.5),
        Target("guard.key", "CPU of a call with a key and three limits, against the bare call", 1.15),
        Target("guard.grant", "CPU of a call with a grant and a durable intent too, against the bare call", 1.4),
        Target("dialects.oxp", "CPU of a call in OXP, against the bare call", 1.3),
        Target("dialects.hub", "CPU of a call in hub messages, against the bare call", 1.3),
        Target("dialects.machine", "CPU of a call in machine messages, against the bare call", 1.3),
        Target("dialects.openapi", "CPU of a call over REST, against the bare call", 1.3),
        Target("loop.spread", "spread of `loop`'s ratio to the ceiling, from least to most", 5, unit="%"),
        Target("loop.read", "CPU of `resources/read` of a text, against the bare call", 1.1),
        Target("loop.prompt", "CPU of `prompts/get` without arguments, against the bare call", 1.1),
        Target("latency.p99", "p99 at 70 % load and 32 connections, against the ceiling's", 1.2),
        Target("workers.rate", "calls per second of two workers, against one", 1.7, "at least"),
        Target("workers.computing", "the same, where the tool itself computes for 0.4 ms", 1.7, "at least"),
        Target("proxied.http", "CPU of a call to a tool server over HTTP, against the bare call", 2.0),
        Target("proxied.socket", "CPU of a call to a tool server over a socket, against the bare call", 2.2),
        Target("proxied.typescript", "CPU of a call to a tool server in TypeScript, against the bare call", 2.2),
        Target("proxied.fastmcp", "CPU of FastMCP's proxy, against the dearest of these", 50, "at least"),
        Target("proxied.contextforge", "CPU of ContextForge, against the dearest of these", 50, "at least"),
        Target("proxied.upstream_http", "CPU of a call to an MCP server, JSON answers, against the bare call", 2.1),
        Target("proxied.upstream_stream", "the same, answers as event streams", 2.5),
        Target("proxied.upstream_stdio", "the same, over standard input and output", 1.9),
        Target("proxied.fastmcp_default", "CPU of FastMCP's proxy, against the dearest of these", 250, "at least"),
        Target("proxied.contextforge_default", "CPU of ContextForge, against the dearest of these", 250, "at least"),
        Target(
            "stdio.before", "CPU of a call over stdio, 32 in flight, against the tree before (30 µs for 55)", 30 / 55
        ),
        Target("scale.tools", "CPU of a call at 10,000 tools, against 10", 1.05),
        Target("list.1000", "CPU of a list of 1,000 tools in one page, against FastMCP", 1 / 20),
        Target("list.10000", "CPU of a list of 10,000 tools in one page, against FastMCP", 1 / 20),
        Target("registry.start", "start with 10,000 registered tools", 3.0, unit="s"),
        Target("registry.call", "CPU of a call at 10,000 registered tools, against 10", 1.25),
        Target("registry.lookup", "CPU of a lookup by version range at 10,000 registered tools, against 10", 1.25),
        Target("registry.page", "CPU of a page of the list at 10,000 registered tools, against 1,000", 1.25),
        Target("cli.version", "CPU of `toolhall --version`, against the tree before", 0.5),
        Target("cli.help", "CPU of `toolhall --help`, against the tree before", 0.5),
        Target("cli.list", "CPU of `toolhall list FILE`, against the tree before", 0.5),
        Target("cli.call", "CPU of `toolhall call TOOL FILE`, against the tree before", 0.5),
        Target("start.seconds", "time from start to the first answer, against FastMCP", 1.0),
        Target("start.memory", "memory at rest (RSS), against FastMCP", 1.0),
        Target("import.toolhall", "`import toolhall`, more than a bare interpreter", 60, unit="ms"),
        Target(
            "overload.running",
            "good answers at three times the load of a tool that runs, against the peak",
            0.8,
            "at least",
        ),
        Target(
            "overload.waiting",
            "good answers at three times the load of a tool that waits, against the peak",
            0.8,
            "at least",
        ),
        Target("overload.memory", "memory under overload, the last round against the first", 1.1),
        Target("conversion.rate", "definitions converted per second of one core", 10_000, "at least", "a second"),
        Target("trouble.p99", "p99 of a good tool among bad ones, against its p99 alone", 1.5),
        Target("tasks.dbos", "CPU of a task, against a DBOS workflow of one step", 0.5),
        Target("supply.secret", "CPU that one secret adds to a call", 15, unit="µs"),
    )
}
