"""`tools/list` with 100, 1,000 and 10,000 tools: CPU of the server for a whole listing, and its bytes."""

from functools import partial

from bench import load
from bench.client import Client
from bench.launch import FASTMCP, SDK, TOOLHALL, Server, ServerSpec, serving
from bench.load import Load, one_by_one
from bench.report import Section, Verdict
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

SIZES = (100, 1_000, 10_000)
ONE_PAGE = "toolhall, one page"

ABOUT = """MCP 2026-07-28, one connection, every page followed. Toolhall gives pages of 100 unless told otherwise; with
`page_size` raised to the number of tools it sends what the peers send."""


def measure_list(options: Options) -> Section:
    """One size after the other, the servers in turn."""
    rows: list[list[str]] = []
    verdicts: list[Verdict] = []
    figures: dict[str, object] = {}
    for tools in SIZES:
        specs = {
            TOOLHALL: ServerSpec(TOOLHALL, tools),
            FASTMCP: ServerSpec(FASTMCP, tools),
            SDK: ServerSpec(SDK, tools),
        }
        if tools > 100:
            specs[ONE_PAGE] = ServerSpec(TOOLHALL, tools, page_size=tools)
        with serving(*specs.values()) as servers:
            found = {name: _pages(server, tools) for name, server in zip(specs, servers, strict=True)}
            lanes = {
                name: partial(one_by_one, server, [page[0] for page in found[name]], "tools/list", options.seconds)
                for name, server in zip(specs, servers, strict=True)
            }
            seen = interleaved(lanes, options.halved().rounds, warm=False)
        rows += [_row(tools, name, seen, found[name]) for name in specs]
        if ONE_PAGE in specs:
            verdicts.append(_verdict(tools, seen))
        figures[str(tools)] = load.figures(seen)
    columns = ["server", "tools", "CPU ms per listing", "times fastmcp", "bytes", "pages"]
    return Section("A listing", ABOUT, columns, rows, verdicts, figures)


def _pages(server: Server, tools: int) -> list[tuple[bytes, int, int]]:
    with Client(server.port) as client:
        pages = client.pages()
    if sum(count for _, _, count in pages) != tools:
        raise RuntimeError(f"{server.process.name} lists {sum(count for _, _, count in pages)} of {tools} tools")
    return pages


def _row(tools: int, name: str, seen: dict[str, list[Load]], pages: list[tuple[bytes, int, int]]) -> list[str]:
    cpu = {lane: [each.cpu_us / 1000 for each in loads] for lane, loads in seen.items()}
    size = sum(length for _, length, _ in pages)
    compared = ratios(cpu[name], cpu[FASTMCP]).text(4)
    return [name, f"{tools:,}", Spread.of(cpu[name]).text(2), compared, f"{size:,}", str(len(pages))]


def _verdict(tools: int, seen: dict[str, list[Load]]) -> Verdict:
    cpu = load.cpu_by_name(seen)
    return TARGETS[f"list.{tools}"].verdict(ratios(cpu[ONE_PAGE], cpu[FASTMCP]))
