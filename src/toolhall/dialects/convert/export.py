"""Writes tools of the model in any dialect, with every loss (write_tools), and finds those it cannot express.

Unlike translate, there is no source document: losses are the differences between the tool and the same tool read back
from the written document, so the list is complete by construction.
"""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.base import Catalog, Loss, WriteResult
from toolhall.dialects.catalogs import WRITE_ONLY_CATALOGS, group_by_toolkit, readable_catalog, write_documents
from toolhall.dialects.convert.loss_reasons import LossReasons, left_out_reason, says_kind, task_loss
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.model_apis.function import indexed_losses, losses_by_tool
from toolhall.model.json import Json, JsonObject, diff_json
from toolhall.model.tool import Tool


def write_tools(dialect: str, tools: Sequence[Tool]) -> WriteResult:
    """Write the tools in a dialect, with every loss; loss paths start with the tool's index if there are several.

    A resource or prompt is left out of a dialect that has none, which is its loss.
    """
    said = [tool for tool in tools if says_kind(tool.kind, dialect)]
    written = _with_task_losses(_write_said(dialect, said), dialect, said)
    if len(said) == len(tools):
        return written
    losses_of_said: dict[int, list[Loss]] = {}
    for index, loss in losses_by_tool(written.losses, len(said)):
        losses_of_said.setdefault(id(said[index]), []).append(loss)
    losses = [
        losses_of_said.get(id(tool), [])
        if says_kind(tool.kind, dialect)
        else [Loss("", left_out_reason(tool, dialect))]
        for tool in tools
    ]
    return WriteResult(written.documents, indexed_losses(losses))


def _with_task_losses(written: WriteResult, dialect: str, tools: Sequence[Tool]) -> WriteResult:
    """Add what no definition states, and so no reader of it can lack."""
    found = [task_loss(tool, dialect) for tool in tools]
    if not any(found):
        return written
    losses: list[list[Loss]] = [[] for _ in tools]
    for index, loss in losses_by_tool(written.losses, len(tools)):
        losses[index].append(loss)
    for each, lost in zip(losses, found, strict=True):
        each.extend(() if lost is None else (lost,))
    return WriteResult(written.documents, indexed_losses(losses))


def _write_said(dialect: str, tools: Sequence[Tool]) -> WriteResult:
    writer = WRITE_ONLY_CATALOGS.get(dialect)
    if writer is not None:
        return writer.write(tuple(tools))
    catalog = readable_catalog(dialect)
    groups = group_by_toolkit(tools) if catalog.grouped else [(tool,) for tool in tools]
    read_back = {
        id(tool): back for group in groups for tool, back in zip(group, _read_back(group, catalog), strict=True)
    }
    losses = [list(_losses_of(tool, read_back[id(tool)], catalog)) for tool in tools]
    return WriteResult(write_documents(tools, catalog), indexed_losses(losses))


def _read_back(group: tuple[Tool, ...], catalog: Catalog) -> tuple[Tool, ...]:
    return catalog.read(catalog.write(group))


def _losses_of(tool: Tool, back: Tool, catalog: Catalog) -> Iterator[Loss]:
    """Members of the tool that a reader of the document does not learn."""
    for change in diff_json(_stated_members(back), _stated_members(tool)):
        if change.value is not msgspec.UNSET:
            yield Loss(change.path, LossReasons("", catalog.name, tool).reason_for(change))


def _stated_members(tool: Tool) -> JsonObject:
    """The tool's explicit members under MCP's names; members that follow from others are left out."""
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
        "resource": _as_json(tool.resource),
        "prompt": _as_json(tool.prompt),
    }
    return {key: value for key, value in stated.items() if value is not None}


def _as_json(part: object) -> Json:
    """A part of the model as JSON; None if it has no content."""
    plain = msgspec.to_builtins(part)
    if isinstance(plain, dict):
        return {key: value for key, value in plain.items() if value is not None}
    return list(plain) if plain else None


class InexpressibleTool(msgspec.Struct, frozen=True):
    """A tool that a dialect cannot express without changing it, and every reason."""

    tool: str
    reasons: list[str]


def partition_expressible(dialect: str, tools: Sequence[Tool]) -> tuple[list[Tool], list[InexpressibleTool]]:
    """Split tools into those that a dialect can express and those it cannot."""
    checked = [(tool, _inexpressible_reasons(dialect, tool)) for tool in tools]
    expressible = [tool for tool, reasons in checked if not reasons]
    return expressible, [InexpressibleTool(tool.name, reasons) for tool, reasons in checked if reasons]


def _inexpressible_reasons(dialect: str, tool: Tool) -> list[str]:
    if not says_kind(tool.kind, dialect):
        return [left_out_reason(tool, dialect)]
    try:
        write_tools(dialect, [tool])
    except BadDocument as bad:
        return [str(finding) for finding in bad.findings]
    return []
