"""Changes in what a schema says beside what it accepts: texts, defaults, unknown keywords."""

from collections.abc import Iterator

from toolhall.contracts.changes import Change
from toolhall.contracts.narrowing.document import JUDGING
from toolhall.contracts.narrowing.gap import shown
from toolhall.contracts.narrowing.judge import frozen
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.references import DEFINITIONS, REFERENCES
from toolhall.schema.walk import children, escape

# What is compared elsewhere, or only names parts of the document.
_ELSEWHERE = JUDGING | frozenset({
    *DEFINITIONS, *REFERENCES, "dependencies", "additionalItems", "$anchor", "$dynamicAnchor", "$recursiveAnchor",
})  # fmt: skip


def input_notes(old: JsonObject, new: JsonObject) -> Iterator[Change]:
    """What arguments are said to be: callers rely on defaults, and clients on headers."""
    for path, key, before, after in _differences(old, new):
        match key:
            case "default":
                yield _default(path, before, after)
            case "x-mcp-header" if after is not None:
                yield Change("breaking", path, f"clients must repeat this argument in the header {shown(after)}")
            case "x-mcp-header":
                yield Change("feature", path, "clients need not repeat this argument in a header any more")
            case _:
                yield _said(path, key, after)


def output_notes(old: JsonObject, new: JsonObject) -> Iterator[Change]:
    """What results are said to be."""
    for path, key, _, after in _differences(old, new):
        yield _said(path, key, after)


def _default(path: str, before: Json, after: Json) -> Change:
    if before is None:
        return Change("feature", path, f"left out, it is {shown(after)}")
    if after is None:
        return Change("breaking", path, f"left out, it is not said to be {shown(before)} any more")
    return Change("breaking", path, f"left out, it is {shown(after)} and not {shown(before)} any more")


def _said(path: str, key: str, after: Json) -> Change:
    if key == "deprecated" and after is True:
        return Change("feature", path, "is deprecated now")
    return Change("fix", path, f"the {key} changed" if key.isalpha() else f"{shown(key)} changed")


def _differences(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, str, Json, Json]]:
    """Path, keyword, and both values, of every part that both schemas have at the same place; null says nothing."""
    pending: list[tuple[JsonObject, JsonObject, str]] = [(old, new, "")]
    while pending:
        one, other, pointer = pending.pop()
        for key in sorted((one.keys() | other.keys()) - _ELSEWHERE):
            before, after = one.get(key), other.get(key)
            if frozen(before) != frozen(after):
                yield f"{pointer}/{escape(key)}", key, before, after
        theirs = {child.pointer: child.schema for child in children(other, pointer)}
        for child in children(one, pointer):
            their = theirs.get(child.pointer)
            if isinstance(child.schema, dict) and isinstance(their, dict) and encode(child.schema) != encode(their):
                pending.append((child.schema, their, child.pointer))
