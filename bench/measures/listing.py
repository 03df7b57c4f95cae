"""`tools/list` with 100, 1,000 and 10,000 tools: CPU of the server for a whole listing, and its bytes."""

from functools import partial

from bench.client import Client
from bench.load import Load, one_by_one
from bench.report import Section, Verdict
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios
from bench.targets import FASTMCP, SDK, TOOLHALL, Server, Target, serving

SIZES = (100, 1_000, 10_000)
ONE_PAGE = "toolhall, one page"
SHARE = 20

ABOUT = """MCP 2026-07-28, one connection, every page followed. Toolhall gives pages of 100 unless told otherwise; with
`page_size` raised to the number of tools it sends what the peers send."""


def measure_list(effort: Effort) -> Section:
    """One size after the other, the servers in turn."""
    rows: list[list[str]] = []
    verdicts: list[Verdict] = []
    figures: dict[str, object] = {}
    for tools in SIZES:
        targets = {TOOLHALL: Target(TOOLHALL, tools), FASTMCP: Target(FASTMCP, tools), SDK: Target(SDK, tools)}
        if tools > 100:
            targets[ONE_PAGE] = Target(TOOLHALL, tools, page_size=tools)
        with serving(*targets.values()) as servers:
            found = {name: _pages(server, tools) for name, server in zip(targets, servers, strict=True)}
            lanes = {
                name: partial(one_by_one, server, [page[0] for page in found[name]], "tools/list", effort.seconds)
                for name, server in zip(targets, servers, strict=True)
            }
            seen = interleaved(lanes, effort.halved().rounds, warm=False)
        rows += [_row(tools, name, seen, found[name]) for name in targets]
        if ONE_PAGE in targets:
            verdicts.append(_verdict(tools, seen))
        figures[str(tools)] = {name: [load._asdict() for load in loads] for name, loads in seen.items()}
    columns = ["server", "tools", "CPU ms per listing", "times fastmcp", "bytes", "pages"]
    return Section("A listing", ABOUT, columns, rows, verdicts, figures)


def _pages(server: Server, tools: int) -> list[tuple[bytes, int, int]]:
    with Client(server.port) as client:
        pages = client.pages()
    if sum(count for _, _, count in pages) != tools:
        raise RuntimeError(f"{server.process.name} lists {sum(count for _, _, count in pages)} of {tools} tools")
    return pages


def _row(tools: int, name: str, seen: dict[str, list[Load]], pages: list[tuple[bytes, int, int]]) -> list[str]:
    cpu = {lane: [load.cpu_us / 1000 for load in loads] for lane, loads in seen.items()}
    size = sum(length for _, length, _ in pages)
    compared = ratios(cpu[name], cpu[FASTMCP]).text(4)
    return [name, f"{tools:,}", Spread.of(cpu[name]).text(2), compared, f"{size:,}", str(len(pages))]


def _verdict(tools: int, seen: dict[str, list[Load]]) -> Verdict:
    theirs, ours = ([load.cpu_us for load in seen[name]] for name in (FASTMCP, ONE_PAGE))
    spread = ratios(theirs, ours)
    target = f"a listing of {tools:,} tools served from encoded bytes, at most 1/{SHARE} of FastMCP's CPU"
    figure = f"1/{spread.median:.0f} (1/{spread.most:.0f}-1/{spread.least:.0f})"
    return Verdict(target, spread.median >= SHARE, figure)
