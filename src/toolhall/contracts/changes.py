"""Changes between two definitions of a tool: schemas, annotations, level, timeout, requirements and descriptions.

The schemas are compared by the values that they accept or return (input_changes, output_changes), everything else
member by member (metadata_changes).
"""

from collections.abc import Iterator

import msgspec

from toolhall.contracts.digest import canonical_json
from toolhall.contracts.semver import ChangeKind, DefinitionChange, prefix_paths
from toolhall.contracts.subschema.comparison import SchemaPair
from toolhall.contracts.subschema.document import VALIDATION_KEYWORDS
from toolhall.contracts.subschema.value_checker import hashable
from toolhall.contracts.subschema.value_facts import Incompatibility, quote_value
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.model.tool import Annotations, Effect, Output, Remainder, Task, Tool
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
_LISTED_REQUIREMENTS = {"authorization": "the account", "secrets": "the secret"}
_UNPROVEN = "it could not be proven that no more is needed than before"
_UNINTERPRETED = "a member changed that Toolhall does not interpret"
# An unstated level depends on the hall: assume a low one before the change and a high one after it.
_UNSTATED_BEFORE, _UNSTATED_AFTER = 1, 4
_EFFECT_RANKS: dict[Effect | None, int] = {"reads": 0, "writes": 1, "destroys": 2, None: 2}
_NO_ANNOTATIONS = Annotations()


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


def metadata_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    """All changes but those of the schemas."""
    if old.name != new.name and new.resource is None:  # a resource is found by its URI
        yield DefinitionChange("breaking", "/name", f"it was renamed from {old.name!r} to {new.name!r}")
    yield from _effect_changes(old, new)
    yield from _level_changes(old, new)
    yield from requirement_changes(old, new)
    yield from _timeout_changes(old, new)
    yield from _task_changes(old, new)
    yield from _resource_changes(old, new)
    yield from _description_changes(old, new)
    yield from _remainder_changes(old, new)


def _effect_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    before, after = old.annotations or _NO_ANNOTATIONS, new.annotations or _NO_ANNOTATIONS
    hints = list(_hint_changes(before, after))
    yield from hints
    if before.title != after.title:
        yield DefinitionChange("fix", "/annotations/title", "the title changed")
    if hints or old.effect == new.effect:
        return
    ranks = _EFFECT_RANKS[old.effect], _EFFECT_RANKS[new.effect]
    kind: ChangeKind = "breaking" if ranks[0] < ranks[1] else "feature" if ranks[0] > ranks[1] else "fix"
    yield DefinitionChange(
        kind, "/effect", f"its effect was {old.effect or 'unstated'} and is {new.effect or 'unstated'}"
    )


def _hint_changes(old: Annotations, new: Annotations) -> Iterator[DefinitionChange]:
    """MCP's defaults: an absent hint means it may write, destroy, repeat effects and reach the outside world."""
    both_write = not old.read_only and not new.read_only
    rows = (
        ("readOnlyHint", old.read_only, new.read_only, False, True, "only to read"),
        ("destructiveHint", old.destructive, new.destructive, True, both_write, "to destroy nothing"),
        ("idempotentHint", old.idempotent, new.idempotent, False, both_write, "to do nothing more when called again"),
        ("openWorldHint", old.open_world, new.open_world, True, True, "to stay inside a closed world"),
    )
    for name, before, after, default, is_relevant, promise in rows:
        if before is after:
            continue
        old_value, new_value = (default if hint is None else hint for hint in (before, after))
        path = f"/annotations/{name}"
        if old_value == new_value or not is_relevant:
            yield DefinitionChange("fix", path, f"{name} is stated differently but means the same")
        elif new_value == default:
            yield DefinitionChange("breaking", path, f"no longer promises {promise}")
        else:
            yield DefinitionChange("feature", path, f"promises {promise}")


def _level_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    if old.level == new.level:
        return
    before = _UNSTATED_BEFORE if old.level is None else old.level
    after = _UNSTATED_AFTER if new.level is None else new.level
    levels = [("unstated" if level is None else str(level)) for level in (old.level, new.level)]
    if after > before:
        yield DefinitionChange(
            "breaking", "/level", f"the level rises from {levels[0]} to {levels[1]}: callers may be refused"
        )
    else:
        yield DefinitionChange(
            "feature", "/level", f"the level falls from {levels[0]} to {levels[1]}: more callers may call it"
        )


def _timeout_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    if old.timeout == new.timeout:
        return
    timeouts = [("the hall's own" if timeout is None else f"{timeout:g} s") for timeout in (old.timeout, new.timeout)]
    shorter = new.timeout is not None and (old.timeout is None or new.timeout < old.timeout)
    reason = f"the timeout was {timeouts[0]} and is {timeouts[1]}"
    unknown = old.timeout is None or new.timeout is None
    if shorter or unknown:
        reason += ": calls may be cut off" if shorter and not unknown else "; it could not be proven to be no shorter"
        yield DefinitionChange("breaking", "/timeout", reason)
    else:
        yield DefinitionChange("feature", "/timeout", reason)


def _task_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    """Changes of whether calls may, must or must not be tasks."""
    before, after = old.task or Task(), new.task or Task()
    if after.required and not before.required:
        yield DefinitionChange("breaking", "/task", "clients without tasks could call it, and cannot any more")
    elif old.task is not None and new.task is None:
        yield DefinitionChange("breaking", "/task", "calls could be tasks, and cannot any more")
    elif old.task != new.task:
        kind: ChangeKind = "feature" if before.required != after.required or old.task is None else "fix"
        yield DefinitionChange(kind, "/task", "it runs as a task in another way")


def _resource_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    before, after = (_by_name(tool.about.resources or ()) for tool in (old, new))
    for name in sorted(before.keys() - after.keys()):
        yield DefinitionChange("breaking", "/resources", f"the resource {name!r} was removed")
    for name in sorted(after.keys() - before.keys()):
        yield DefinitionChange("feature", "/resources", f"the resource {name!r} was added")
    if any(before[name] != after[name] for name in before.keys() & after.keys()):
        yield DefinitionChange("fix", "/resources", "a resource is described differently")


def _by_name(resources: tuple[Json, ...]) -> dict[str, Json]:
    return {str(each.get("name", index)): each for index, each in enumerate(resources)}


def _description_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    rows = (
        ("/title", old.title, new.title),
        ("/description", old.description, new.description),
        ("/icons", old.icons, new.icons),
        ("/tags", old.tags, new.tags),
        ("/_meta", old.meta, new.meta),
        ("/outputSchema/description", old.output.description, new.output.description),
        ("/toolkit/title", old.about.title, new.about.title),
        ("/toolkit/description", old.about.description, new.about.description),
        ("/toolkit/metadata", old.about.metadata, new.about.metadata),
    )
    for path, before, after in rows:
        if before != after:
            yield DefinitionChange("fix", path, f"the {path.rpartition('/')[2].lstrip('_')} changed")


def _remainder_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    """Changes of members that only the tool's own dialect has."""
    before, after = _remainder_members(old.remainder), _remainder_members(new.remainder)
    for path in sorted(before.keys() | after.keys()):
        if before.get(path, msgspec.UNSET) == after.get(path, msgspec.UNSET):
            continue
        if path.startswith("/execution"):  # MCP: whether a call must, may or must not be a task
            yield DefinitionChange("breaking", path, "it could not be proven that it can be called as before")
        else:
            yield DefinitionChange("fix", path, _UNINTERPRETED)


def _remainder_members(remainder: Remainder | None) -> dict[str, Json]:
    if remainder is None:
        return {}
    return {change.path: change.value for change in (*remainder.group, *remainder.item)}


def requirement_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    """Changes of requirements and permissions; more than before is breaking, less is a feature."""
    before, after = old.requirements or {}, new.requirements or {}
    for key, what in _LISTED_REQUIREMENTS.items():
        yield from _list_changes(f"/requirements/{key}", what, _by_id(before.get(key)), _by_id(after.get(key)))
    if bool(before.get("user_id")) != bool(after.get("user_id")):
        path = "/requirements/user_id"
        yield _needs_more(path, "the user's id") if after.get("user_id") else _needs_less(path, "the user's id")
    for key in sorted((before.keys() | after.keys()) - _LISTED_REQUIREMENTS.keys() - {"user_id"}):
        yield from _other_change(key, before.get(key), after.get(key))
    yield from _set_changes("/permissions", "the permission", old.permissions or (), new.permissions or ())


def _list_changes(path: str, what: str, before: dict[str, Json], after: dict[str, Json]) -> Iterator[DefinitionChange]:
    yield from _set_changes(path, what, tuple(before), tuple(after))
    for name in before.keys() & after.keys():
        if before[name] != after[name]:
            yield from _account_changes(path, before[name], after[name])


def _account_changes(path: str, before: Json, after: Json) -> Iterator[DefinitionChange]:
    """Changes of an account that is still required: perhaps of its scopes."""
    old_scopes, new_scopes = _scopes(before), _scopes(after)
    if old_scopes is None or new_scopes is None or _without_scopes(before) != _without_scopes(after):
        yield DefinitionChange("breaking", path, _UNPROVEN)
    else:
        yield from _set_changes(path, "the scope", old_scopes, new_scopes)


def _set_changes(path: str, what: str, before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[DefinitionChange]:
    for name in sorted(set(after) - set(before)):
        yield _needs_more(path, f"{what} {quote_value(name)}")
    for name in sorted(set(before) - set(after)):
        yield _needs_less(path, f"{what} {quote_value(name)}")


def _other_change(key: str, before: Json, after: Json) -> Iterator[DefinitionChange]:
    if before == after:
        return
    path = f"/requirements/{escape_pointer(key)}"
    if key.startswith("x-"):
        yield DefinitionChange("fix", path, _UNINTERPRETED)
    elif after is None:
        yield _needs_less(path, quote_value(key))
    else:
        yield DefinitionChange("breaking", path, _UNPROVEN)


def _needs_more(path: str, what: str) -> DefinitionChange:
    return DefinitionChange("breaking", path, f"needs {what}")


def _needs_less(path: str, what: str) -> DefinitionChange:
    return DefinitionChange("feature", path, f"no longer needs {what}")


def _by_id(items: Json) -> dict[str, Json]:
    entries = items if isinstance(items, list) else []
    return {str(entry.get("id")): entry for entry in entries if isinstance(entry, dict)}


def _scopes(entry: JsonObject) -> tuple[str, ...] | None:
    oauth = entry.get("oauth2")
    scopes = oauth.get("scopes", []) if isinstance(oauth, dict) else []
    return tuple(scopes) if isinstance(scopes, list) and all(isinstance(scope, str) for scope in scopes) else None


def _without_scopes(entry: JsonObject) -> JsonObject:
    oauth = entry.get("oauth2")
    rest = {key: part for key, part in oauth.items() if key != "scopes"} if isinstance(oauth, dict) else oauth
    return {**entry, "oauth2": rest or None}
