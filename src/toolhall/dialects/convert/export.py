"""Writes tools in any dialect with every loss (write_tools), and tells which tools it cannot express at all."""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.base import Catalog, Loss, WriteResult
from toolhall.dialects.catalogs import WRITE_ONLY_CATALOGS, group_by_toolkit, readable_catalog, write_documents
from toolhall.dialects.convert.losses import LossReasons
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.model_apis.function import indexed_losses
from toolhall.model.json import Json, JsonObject
from toolhall.model.json_diff import diff_json
from toolhall.model.tool import Tool


def write_tools(dialect: str, tools: Sequence[Tool]) -> WriteResult:
    """The documents of these tools, and every loss; paths start with the tool's number where there are several."""
    writer = WRITE_ONLY_CATALOGS.get(dialect)
    if writer is not None:
        return writer.write(tuple(tools))
    catalog = readable_catalog(dialect)
    groups = group_by_toolkit(tools) if catalog.grouped else [(tool,) for tool in tools]
    read = {id(tool): back for group in groups for tool, back in zip(group, _read_back(group, catalog), strict=True)}
    losses = [list(_losses_of(tool, read[id(tool)], catalog)) for tool in tools]
    return WriteResult(write_documents(tools, catalog), indexed_losses(losses))


def _read_back(group: tuple[Tool, ...], catalog: Catalog) -> tuple[Tool, ...]:
    return catalog.read(catalog.write(group))


def _losses_of(tool: Tool, back: Tool, catalog: Catalog) -> Iterator[Loss]:
    """What a reader of the document does not learn; complete, because it is found by reading the document."""
    for change in diff_json(_stated_members(back), _stated_members(tool)):
        if change.value is not msgspec.UNSET:
            yield Loss(change.path, LossReasons("", catalog.name, tool).reason_for(change))


def _stated_members(tool: Tool) -> JsonObject:
    """What the tool states, spelled as MCP does; what follows from the rest is left out."""
    output = {"nothing": True} if tool.output.kind == "none" else tool.output.schema
    stated = {
        "name": tool.name,
        "version": tool.id.version,
        "toolkit": {"name": tool.id.toolkit, **_as_json(tool.about)},
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input,
        "outputSchema": output if tool.output.kind != "unstated" else None,
        "returns": tool.output.description,
        "annotations": _as_json(tool.annotations),
        "effect": tool.effect if tool.annotations is None else None,  # else the hints say it
        "icons": _as_json(tool.icons),
        "tags": _as_json(tool.tags),
        "level": tool.level,
        "requirements": tool.requirements,
        "permissions": _as_json(tool.permissions),
        "timeout": tool.timeout,
        "_meta": tool.meta,
        "deprecation": _as_json(tool.deprecation) if tool.deprecation else None,
    }
    return {key: value for key, value in stated.items() if value is not None}


def _as_json(part: object) -> Json:
    """A part of the model as JSON; None for one that states nothing."""
    plain = msgspec.to_builtins(part)
    if isinstance(plain, dict):
        return {key: value for key, value in plain.items() if value is not None}
    return list(plain) if plain else None


class InexpressibleTool(msgspec.Struct, frozen=True):
    """A tool that the dialect would change, and every reason."""

    tool: str
    reasons: list[str]


def partition_expressible(dialect: str, tools: Sequence[Tool]) -> tuple[list[Tool], list[InexpressibleTool]]:
    """The tools that can be written in a dialect, and those that cannot."""
    judged = [(tool, _inexpressible_reasons(dialect, tool)) for tool in tools]
    kept = [tool for tool, reasons in judged if not reasons]
    return kept, [InexpressibleTool(tool.name, reasons) for tool, reasons in judged if reasons]


def _inexpressible_reasons(dialect: str, tool: Tool) -> list[str]:
    try:
        write_tools(dialect, [tool])
    except BadDocument as bad:
        return [str(finding) for finding in bad.findings]
    return []
