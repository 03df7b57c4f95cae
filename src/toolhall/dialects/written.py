"""Tools written in any dialect, with what that dialect cannot say of them."""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.catalog import Catalog, Loss, Written
from toolhall.dialects.catalogs import WRITERS, documents_of, readable, toolkits
from toolhall.dialects.functions import placed
from toolhall.dialects.reasons import Reasons
from toolhall.model.json import Json, JsonObject
from toolhall.model.patch import changes
from toolhall.model.tool import Tool


def written_in(dialect: str, tools: Sequence[Tool]) -> Written:
    """The documents of these tools, and every loss; paths start with the tool's number where there are several."""
    writer = WRITERS.get(dialect)
    if writer is not None:
        return writer.write(tuple(tools))
    catalog = readable(dialect)
    groups = toolkits(tools) if catalog.grouped else [(tool,) for tool in tools]
    read = {id(tool): back for group in groups for tool, back in zip(group, _read_back(group, catalog), strict=True)}
    losses = [list(_unsaid(tool, read[id(tool)], catalog)) for tool in tools]
    return Written(documents_of(tools, catalog), placed(losses))


def _read_back(group: tuple[Tool, ...], catalog: Catalog) -> tuple[Tool, ...]:
    return catalog.read(catalog.write(group))


def _unsaid(tool: Tool, back: Tool, catalog: Catalog) -> Iterator[Loss]:
    """What a reader of the document does not learn; complete, because it is found by reading the document."""
    for change in changes(_stated(back), _stated(tool)):
        if change.value is not msgspec.UNSET:
            yield Loss(change.path, Reasons("", catalog.name, tool).of(change))


def _stated(tool: Tool) -> JsonObject:
    """What the tool states, spelled as MCP does; what follows from the rest is left out."""
    output = {"nothing": True} if tool.output.kind == "none" else tool.output.schema
    stated = {
        "name": tool.name,
        "version": tool.id.version,
        "toolkit": {"name": tool.id.toolkit, **_plain(tool.about)},
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input,
        "outputSchema": output if tool.output.kind != "unstated" else None,
        "returns": tool.output.description,
        "annotations": _plain(tool.annotations),
        "effect": tool.effect if tool.annotations is None else None,  # else the hints say it
        "icons": _plain(tool.icons),
        "tags": _plain(tool.tags),
        "level": tool.level,
        "requirements": tool.requirements,
        "permissions": _plain(tool.permissions),
        "timeout": tool.timeout,
        "_meta": tool.meta,
        "deprecation": _plain(tool.deprecation) if tool.deprecation else None,
    }
    return {key: value for key, value in stated.items() if value is not None}


def _plain(part: object) -> Json:
    """A part of the model as JSON; None for one that states nothing."""
    plain = msgspec.to_builtins(part)
    if isinstance(plain, dict):
        return {key: value for key, value in plain.items() if value is not None}
    return list(plain) if plain else None
