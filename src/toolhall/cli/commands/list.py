"""The commands `toolhall list` and `toolhall inspect`: which tools there are, and everything about some of them."""

from typing import TYPE_CHECKING

from toolhall.cli.clients.base import ToolInfo, collect_views, full_dialect_name, open_tool_client, require_tool
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.options import ListToolsOptions, SourceOptions
from toolhall.cli.output import CYAN, GREEN, RED, YELLOW, note, print_json, print_rows
from toolhall.cli.settings import read_config
from toolhall.cli.target_names import looks_like_target
from toolhall.config import Config

if TYPE_CHECKING:
    from toolhall.dialects.convert.export import InexpressibleTool

_STYLES = {"reads": GREEN, "writes": YELLOW, "destroys": RED}


def run_list(target: str | None, options: ListToolsOptions) -> None:
    """List the tools of a target or of a running server."""
    start_logging(None)
    dialect = full_dialect_name(options.dialect) if options.dialect else None
    if options.url and options.config:
        raise UsageError("--config is for a target; a running server has its own settings: leave out --config or --url")
    config = Config() if options.url else Config(levels=read_config(options.config).levels)
    with open_tool_client(options, target, config) as source:
        source.print_warnings()
        if dialect:
            rendered = source.render(dialect)
            print_json(rendered.documents)
            _report_refused(rendered.refused, dialect)
            return
        tools = source.with_levels(source.tools())
    if options.json:
        print_json([info.summary() for info in tools])
    else:
        print_rows(("name", "version", "level", "effect", "description"), map(_row, tools), _STYLES, first=CYAN)


def _row(info: ToolInfo) -> tuple[str, ...]:
    first_line = (info.description or "").strip().partition("\n")[0]
    level = info.level if info.effective_level is None else info.effective_level
    return info.name, info.version or "", "" if level is None else str(level), info.effect or "", first_line


def _report_refused(refused: "list[InexpressibleTool]", dialect: str) -> None:
    for each in refused:
        note(f"{each.tool}: {'; '.join(each.reasons)}")
    if refused:
        names = ", ".join(each.tool for each in refused)
        raise CommandError(f"{dialect} cannot say {names}; the others are listed")


def run_inspect(words: tuple[str, ...], options: SourceOptions) -> None:
    """Show everything about one tool, or about all of them briefly."""
    start_logging(None)
    target, tool = _split_words(words, options)
    config = Config() if options.url else Config(levels=read_config().levels)
    with open_tool_client(options, target, config) as source:
        tools = source.tools()
        selected = [require_tool(source, tools, tool)] if tool else tools
        views = collect_views(source, source.with_levels(selected))
    if options.json:
        print_json(views[0].document() if tool else [each.document() for each in views])
        return
    from toolhall.cli import rich_output  # lazy: rich

    if tool:
        rich_output.print_tool_page(views[0])
    else:
        rich_output.print_tool_summaries(views)


def _split_words(words: tuple[str, ...], options: SourceOptions) -> tuple[str | None, str | None]:
    """The target and the tool among the words; None for the one that is left out."""
    has_source = bool(options.url or options.target)
    match words:
        case ():
            return None, None
        case (word,) if not has_source and looks_like_target(word):
            return word, None
        case (word,):
            return None, word
        case (first, second) if not has_source:
            swapped = looks_like_target(second) and not looks_like_target(first)
            return (second, first) if swapped else (first, second)
        case _:
            raise UsageError("too many words; write: toolhall inspect [TARGET or --url URL] [TOOL]")
