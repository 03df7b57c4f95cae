"""The commands `toolhall list` and `toolhall inspect`: what there is, and everything about some of it."""

from typing import TYPE_CHECKING, NamedTuple

from toolhall.cli.clients.base import (
    Described,
    ToolClient,
    ToolInfo,
    collect_views,
    find_tool,
    full_dialect_name,
    open_tool_client,
    require_tool,
)
from toolhall.cli.clients.descriptions import PromptDescription, ResourceDescription, find_described, find_resource
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.options import InspectOptions, KindOption, ListToolsOptions, SourceOptions
from toolhall.cli.output import BOLD, CYAN, GREEN, RED, YELLOW, note, print_json, print_rows, print_styled
from toolhall.cli.settings import read_config
from toolhall.cli.target_names import is_resource_uri, looks_like_target
from toolhall.config import Config

if TYPE_CHECKING:
    from toolhall.dialects.convert.export import InexpressibleTool

_STYLES = {"reads": GREEN, "writes": YELLOW, "destroys": RED}


class _Listed(NamedTuple):
    """What a source has, of the kinds that were asked for."""

    tools: list[ToolInfo]
    resources: list[ResourceDescription]
    prompts: list[PromptDescription]


def run_list(target: str | None, options: ListToolsOptions) -> None:
    """List the tools, resources and prompts of a target or of a running server."""
    start_logging(None)
    dialect = full_dialect_name(options.dialect) if options.dialect else None
    if dialect and options.kind not in (None, "tool"):
        raise UsageError("--dialect writes the definitions of tools; leave it out, or leave out --kind")
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
        listed = _fetch(source, options.kind)
        tools, resources, prompts = listed
        listed = _Listed(source.with_levels(tools), source.with_levels(resources), source.with_levels(prompts))
    if options.json:
        print_json([each.summary() for part in listed for each in part])
    else:
        _print_tables(listed, options.kind)


def _fetch(source: ToolClient, kind: KindOption | None) -> _Listed:
    return _Listed(
        source.tools() if kind in (None, "tool") else [],
        source.resources() if kind in (None, "resource") else [],
        source.prompts() if kind in (None, "prompt") else [],
    )


def _print_tables(listed: _Listed, kind: KindOption | None) -> None:
    """Print a table for each kind, below its name; without resources and prompts the one of the tools alone."""
    tables = [
        ("Tools", ("name", "version", "level", "effect", "description"), list(map(_tool_row, listed.tools))),
        ("Resources", ("uri", "level", "type", "description"), list(map(_resource_row, listed.resources))),
        ("Prompts", ("name", "version", "level", "arguments", "description"), list(map(_prompt_row, listed.prompts))),
    ]
    shown = [table for table in tables if table[2]] or [tables[{"resource": 1, "prompt": 2}.get(kind or "", 0)]]
    for number, (title, headings, rows) in enumerate(shown):
        if len(shown) > 1:
            print_styled(f"\n{title}" if number else title, BOLD)
        print_rows(headings, rows, _STYLES, first=CYAN)


def _tool_row(info: ToolInfo) -> tuple[str, ...]:
    return info.name, info.version or "", _level(info), info.effect or "", _first_line(info)


def _resource_row(resource: ResourceDescription) -> tuple[str, ...]:
    return resource.uri, _level(resource), resource.mime_type or "", _first_line(resource)


def _prompt_row(prompt: PromptDescription) -> tuple[str, ...]:
    arguments = " ".join(name if name in prompt.required else f"[{name}]" for name in prompt.names)
    return prompt.name, prompt.version or "", _level(prompt), arguments, _first_line(prompt)


def _level(info: Described) -> str:
    level = info.level if info.effective_level is None else info.effective_level
    return "" if level is None else str(level)


def _first_line(info: Described) -> str:
    return (info.description or "").strip().partition("\n")[0]


def _report_refused(refused: "list[InexpressibleTool]", dialect: str) -> None:
    for each in refused:
        note(f"{each.tool}: {'; '.join(each.reasons)}")
    if refused:
        names = ", ".join(each.tool for each in refused)
        raise CommandError(f"{dialect} cannot say {names}; the others are listed")


def run_inspect(words: tuple[str, ...], options: InspectOptions) -> None:
    """Show everything about one tool, resource or prompt, or about all of them briefly."""
    start_logging(None)
    target, name = _split_words(words, options)
    config = Config() if options.url else Config(levels=read_config().levels)
    with open_tool_client(options, target, config) as source:
        listed = _fetch(source, options.kind)
        tools = listed.tools
        described: list[ResourceDescription | PromptDescription] = [*listed.resources, *listed.prompts]
        if name:
            tools, described = _select(source, listed, name, options.kind)
        views = collect_views(source, source.with_levels(tools)) if tools else []
    if options.json:
        documents = [*(each.document() for each in views), *(each.document() for each in described)]
        print_json(documents[0] if name else documents)
        return
    from toolhall.cli import rich_output  # lazy: rich

    if not name:
        rich_output.print_tool_summaries(views)
        rich_output.print_summaries(described)
    elif views:
        rich_output.print_tool_page(views[0])
    else:
        rich_output.print_description(described[0])


def _select(
    source: ToolClient, listed: _Listed, name: str, kind: KindOption | None
) -> tuple[list[ToolInfo], list[ResourceDescription | PromptDescription]]:
    """The one tool, or the one resource or prompt, with this name, id or URI; CommandError if there is none."""
    if find_tool(listed.tools, name) is None:
        found = (
            find_resource(listed.resources, name)
            or find_described(listed.resources, name)
            or find_described(listed.prompts, name)
        )
        if isinstance(found, ResourceDescription | PromptDescription):
            return [], [found]
        wanted = "resource" if is_resource_uri(name) else kind
        if wanted in ("resource", "prompt"):
            raise CommandError(f"there is no {wanted} {name!r}; see them with 'toolhall list --kind {wanted}'")
    return [require_tool(source, listed.tools, name)], []


def _split_words(words: tuple[str, ...], options: SourceOptions) -> tuple[str | None, str | None]:
    """The target and the name among the words; None for the one that is left out."""
    has_source = bool(options.url or options.target)
    match words:
        case ():
            return None, None
        case (word,) if not has_source and looks_like_target(word) and not is_resource_uri(word):
            return word, None
        case (word,):
            return None, word
        case (first, second) if not has_source:
            swapped = looks_like_target(second) and (is_resource_uri(first) or not looks_like_target(first))
            return (second, first) if swapped and not is_resource_uri(second) else (first, second)
        case _:
            raise UsageError("too many words; write: toolhall inspect [TARGET or --url URL] [NAME or URI]")
