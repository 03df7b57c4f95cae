"""Changes between two definitions besides the schemas: annotations, level, timeout, requirements, descriptions."""

from collections.abc import Iterator

import msgspec

from toolhall.contracts.semver import ChangeKind, DefinitionChange
from toolhall.contracts.subschema.value_facts import quote_value
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.tool import Annotations, Effect, Remainder, Tool

_LISTED_REQUIREMENTS = {"authorization": "the account", "secrets": "the secret"}
_UNPROVEN = "it could not be proven that no more is needed than before"
_UNINTERPRETED = "a member changed that Toolhall does not interpret"
# An unstated level depends on the hall: assume a low one before the change and a high one after it.
_UNSTATED_BEFORE, _UNSTATED_AFTER = 1, 4
_EFFECT_RANKS: dict[Effect | None, int] = {"reads": 0, "writes": 1, "destroys": 2, None: 2}
_NO_ANNOTATIONS = Annotations()


def metadata_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    """All changes but those of the schemas."""
    if old.name != new.name:
        yield DefinitionChange("breaking", "/name", f"it was renamed from {old.name!r} to {new.name!r}")
    yield from _effect_changes(old, new)
    yield from _level_changes(old, new)
    yield from requirement_changes(old, new)
    yield from _timeout_changes(old, new)
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
