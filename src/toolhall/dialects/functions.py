"""What the catalogs of model APIs share: names, descriptions, and what a function's definition cannot say of a tool."""

import hashlib
import re
from collections.abc import Iterator

from toolhall.dialects.catalog import Loss
from toolhall.model.names import NAME_LIMIT, safe_name, whole_name
from toolhall.model.tool import About, Tool
from toolhall.schema.reshape import Reshaped

_UNSTATED_VERSION = "0.1.0"  # what a tool gets whose author states none
NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_LIMIT}}}")


def function_names(tools: tuple[Tool, ...], allowed: re.Pattern[str] = NAME) -> list[str]:
    """The name of each tool, in their order, so that a call by name leads back to its tool; no two are equal.

    A name that the API refuses is changed and ends with a hash of the whole name: always the same, whatever else is
    listed. Only of two tools with one name (two versions of a tool) does the later one get a hash of its id.
    """
    names: dict[str, None] = {}
    for tool in tools:
        name = tool.name if allowed.fullmatch(tool.name) else _hashed(whole := exact_name(tool), whole, allowed)
        if name in names:
            name = _hashed(name, str(tool.id), allowed)
        while name in names:  # the very same tool once more
            name = _hashed(name, name, allowed)
        names[name] = None
    return list(names)


def tools_by_name(tools: tuple[Tool, ...], allowed: re.Pattern[str] = NAME) -> dict[str, Tool]:
    """The way back from a call: which of the tools a written name means, where all of them were written together."""
    return dict(zip(function_names(tools, allowed), tools, strict=True))


def exact_name(tool: Tool) -> str:
    """What the tool is called where it was defined: its published name may be a changed one already."""
    whole = whole_name(tool.id.toolkit, tool.id.tool)
    return tool.stated or (whole if safe_name(whole) == tool.name else tool.name)


def _hashed(name: str, whole: str, allowed: re.Pattern[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if not allowed.fullmatch(plain[:1]):
        plain = f"_{plain}"
    digest = hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:8]
    return f"{plain[: NAME_LIMIT - 9]}_{digest}"


def description_of(tool: Tool, notes: list[str]) -> str | None:
    """The tool's description, and below it what its schema cannot say."""
    parts = [tool.description or tool.title or "", " ".join(notes)]
    return "\n\n".join(part for part in parts if part) or None


def losses_of(tool: Tool, name: str, dialect: str) -> Iterator[Loss]:
    """What no definition of a function says: everything but name, description and parameters."""
    exact = exact_name(tool)
    if name != exact:
        yield Loss("/name", f"{dialect} refuses this name, or it is taken; written as {name} for {exact[:128]!r}")
    if tool.title is not None and tool.description:
        yield Loss("/title", f"{dialect} has no titles")
    if tool.output.kind != "unstated" or tool.output.description is not None:
        yield Loss("/outputSchema", f"{dialect} does not say what a tool returns")
    yield from unsaid(tool, dialect)
    if tool.tags:
        yield Loss("/tags", f"{dialect} has no place for this")
    yield from unsaid_of_toolkit(tool.about, dialect)
    if tool.id.version != _UNSTATED_VERSION:
        yield Loss("/version", f"{dialect} has no versions")


def unsaid(tool: Tool, dialect: str) -> Iterator[Loss]:
    """What neither model APIs nor OpenAPI have a place for."""
    stated = (
        ("/annotations", tool.annotations is not None),
        ("/effect", tool.effect is not None and tool.annotations is None),
        ("/icons", bool(tool.icons)),
        ("/level", tool.level is not None),
        ("/requirements", tool.requirements is not None),
        ("/permissions", tool.permissions is not None),
        ("/timeout", tool.timeout is not None),
        ("/_meta", tool.meta is not None),
        ("/deprecation", tool.deprecation is not None and dialect != "openapi"),
    )
    for path, said in stated:
        if said:
            yield Loss(path, f"{dialect} has no place for this")


def unsaid_of_toolkit(about: About, dialect: str) -> Iterator[Loss]:
    """What is stated of the toolkit as a whole."""
    for field in about.__struct_fields__:
        if getattr(about, field) is not None:
            yield Loss(f"/toolkit/{field}", f"{dialect} has no place for this")


def losses_in(reshaped: Reshaped, prefix: str = "/inputSchema") -> Iterator[Loss]:
    """What a schema lost on its way, by pointer."""
    for lost in reshaped.lost:
        yield Loss(prefix + lost.path, lost.reason)


def by_tool(losses: list[Loss], count: int) -> Iterator[tuple[int, Loss]]:
    """The opposite of `placed`: which of so many tools lost what."""
    for loss in losses:
        number, slash, rest = ("0", "", loss.path) if count == 1 else loss.path[1:].partition("/")
        yield int(number), Loss(slash + rest, loss.reason)


def placed(losses: list[list[Loss]]) -> list[Loss]:
    """The losses of several tools: pointers into the list of tools; of one tool, into the tool itself."""
    if len(losses) == 1:
        return losses[0]
    return [Loss(f"/{index}{loss.path}", loss.reason) for index, listed in enumerate(losses) for loss in listed]
