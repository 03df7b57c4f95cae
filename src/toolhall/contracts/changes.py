"""Changes between the schemas of two definitions: accepted or returned values, defaults and annotations."""

from collections.abc import Iterator

import msgspec

from toolhall.contracts.digest import canonical_json
from toolhall.contracts.semver import ChangeKind, DefinitionChange, prefix_paths
from toolhall.contracts.subschema.comparison import SchemaPair
from toolhall.contracts.subschema.document import VALIDATION_KEYWORDS
from toolhall.contracts.subschema.value_checker import hashable
from toolhall.contracts.subschema.value_facts import Incompatibility, quote_value
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.model.tool import Output
from toolhall.schema.adapt import SchemaLocation
from toolhall.schema.keywords import DEFINITION_KEYWORDS, REFERENCE_KEYWORDS, PointerParts, subschemas

# Keywords that the comparison of values covers, or that only name parts of the document.
_COMPARED_ELSEWHERE = VALIDATION_KEYWORDS | frozenset({
    *DEFINITION_KEYWORDS, *REFERENCE_KEYWORDS, "dependencies", "additionalItems", "$anchor", "$dynamicAnchor",
    "$recursiveAnchor",
})  # fmt: skip
_encode = msgspec.json.Encoder(order="deterministic").encode
_ACCEPTS_LESS = "no longer accepts {}", "could not be proven to accept all that it accepted: {}"
_ACCEPTS_MORE = "also accepts {}", "may accept more: {}"
_RETURNS_LESS = "no longer returns {}", "may return less: {}"
_RETURNS_MORE = "may now return {}", "could not be proven to return only what it returned: {}"
_REWRITTEN = DefinitionChange("fix", "", "is written differently but means the same")


def input_changes(old: JsonObject, new: JsonObject) -> list[DefinitionChange]:
    """Changes of the input schema; refusing arguments that were accepted is breaking."""
    if _encode(old) == _encode(new):
        return []
    documents, pair = (new, old), SchemaPair(old, new)
    changes = [_to_change(gap, "breaking", _ACCEPTS_LESS, documents) for gap in pair.narrowings()]
    changes += [_to_change(gap, "feature", _ACCEPTS_MORE, documents) for gap in pair.widenings()]
    return prefix_paths("/inputSchema", _or_rewritten([*changes, *input_annotation_changes(old, new)], old, new))


def output_changes(old: Output, new: Output) -> list[DefinitionChange]:
    """Changes of the output schema; returning new values, or dropping declared members, is breaking."""
    if old.kind != "schema" or new.kind != "schema":
        return list(_output_kind_changes(old, new))
    before, after = old.schema or {}, new.schema or {}
    if _encode(before) == _encode(after):
        return []
    documents, pair = (after, before), SchemaPair(before, after)
    changes = [_to_change(gap, _widening_kind(gap), _RETURNS_MORE, documents) for gap in pair.widenings()]
    # A free-form object may still return the listed members, but no longer declares them.
    changes += [
        _to_change(gap, _narrowing_kind(gap), _RETURNS_LESS, documents) for gap in pair.narrowings(free_form=False)
    ]
    return prefix_paths(
        "/outputSchema", _or_rewritten([*changes, *output_annotation_changes(before, after)], before, after)
    )


def _to_change(
    gap: Incompatibility, kind: ChangeKind, templates: tuple[str, str], documents: tuple[Json, ...]
) -> DefinitionChange:
    if gap.about == "undeclared":  # observable, but neither version declared it
        kind = "feature"
    return DefinitionChange(kind, _pointer(gap.path, documents), templates[not gap.proven].format(gap.what))


def _widening_kind(gap: Incompatibility) -> ChangeKind:
    """A new member breaks no caller that had to expect others; a caller that had not may refuse it."""
    return "feature" if gap.about == "member" else "breaking"


def _narrowing_kind(gap: Incompatibility) -> ChangeKind:
    """Members that callers read must stay; values that are never returned any more are no loss."""
    return "breaking" if gap.about in ("member", "refused") else "feature"


def _pointer(path: str, documents: tuple[Json, ...]) -> str:
    """The path as far as it resolves in one of the documents: older drafts have other keywords."""
    parts: PointerParts = tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    pointers = [SchemaLocation((parts,)).pointer(document) for document in documents]
    return max(pointers, key=len)


def _or_rewritten(changes: list[DefinitionChange], old: JsonObject, new: JsonObject) -> list[DefinitionChange]:
    return changes if changes or canonical_json(old) == canonical_json(new) else [_REWRITTEN]


def _output_kind_changes(old: Output, new: Output) -> Iterator[DefinitionChange]:
    if old.kind == new.kind:
        return
    match old.kind, new.kind:
        case "unstated", _:
            yield DefinitionChange("feature", "/outputSchema", "the output is declared now")
        case _, "unstated":
            yield DefinitionChange("breaking", "/outputSchema", "the output is no longer declared")
        case "none", _:
            yield DefinitionChange("breaking", "/outputSchema", "a value is returned where nothing was")
        case _:
            yield DefinitionChange("breaking", "/outputSchema", "nothing is returned any more")


def input_annotation_changes(old: JsonObject, new: JsonObject) -> Iterator[DefinitionChange]:
    """Changes of annotations of arguments; callers rely on defaults, and clients on headers."""
    for path, key, before, after in _annotation_differences(old, new):
        match key:
            case "default":
                yield _default_change(path, before, after)
            case "x-mcp-header" if after is not None:
                yield DefinitionChange(
                    "breaking", path, f"clients must repeat this argument in the header {quote_value(after)}"
                )
            case "x-mcp-header":
                yield DefinitionChange("feature", path, "clients need not repeat this argument in a header any more")
            case _:
                yield _annotation_change(path, key, after)


def output_annotation_changes(old: JsonObject, new: JsonObject) -> Iterator[DefinitionChange]:
    """Changes of annotations of results."""
    for path, key, _, after in _annotation_differences(old, new):
        yield _annotation_change(path, key, after)


def _default_change(path: str, before: Json, after: Json) -> DefinitionChange:
    if before is None:
        return DefinitionChange("feature", path, f"the default is {quote_value(after)} now")
    if after is None:
        return DefinitionChange("breaking", path, f"the default {quote_value(before)} was removed")
    return DefinitionChange("breaking", path, f"the default changed from {quote_value(before)} to {quote_value(after)}")


def _annotation_change(path: str, key: str, after: Json) -> DefinitionChange:
    if key == "deprecated" and after is True:
        return DefinitionChange("feature", path, "is deprecated now")
    return DefinitionChange("fix", path, f"the {key} changed" if key.isalpha() else f"{quote_value(key)} changed")


def _annotation_differences(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, str, Json, Json]]:
    """Path, keyword and both values of each difference at a path that both schemas have; null means absent."""
    pending: list[tuple[JsonObject, JsonObject, str]] = [(old, new, "")]
    while pending:
        one, other, pointer = pending.pop()
        for key in sorted((one.keys() | other.keys()) - _COMPARED_ELSEWHERE):
            before, after = one.get(key), other.get(key)
            if hashable(before) != hashable(after):
                yield f"{pointer}/{escape_pointer(key)}", key, before, after
        theirs = {child.pointer: child.schema for child in subschemas(other, pointer)}
        for child in subschemas(one, pointer):
            their = theirs.get(child.pointer)
            if isinstance(child.schema, dict) and isinstance(their, dict) and encode(child.schema) != encode(their):
                pending.append((child.schema, their, child.pointer))
