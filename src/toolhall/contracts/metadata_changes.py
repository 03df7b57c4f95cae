"""Changes between two definitions beside the schemas: annotations, level, timeout, requirements and descriptions."""

from collections.abc import Iterator

import msgspec

from toolhall.contracts.semver import ChangeKind, DefinitionChange
from toolhall.contracts.subschema.incompatibility import quote_value
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.tool import Annotations, Effect, Remainder, Tool

_LISTED_REQUIREMENTS = {"authorization": "the account", "secrets": "the secret"}
_UNPROVEN = "it could not be proven that no more is needed than before"


def requirement_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    """More than before breaks callers that do not have it; less is a feature."""
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
    """One that is needed as before, and described differently: perhaps with other scopes."""
    mine, theirs = _scopes(before), _scopes(after)
    if mine is None or theirs is None or _without_scopes(before) != _without_scopes(after):
        yield DefinitionChange("breaking", path, _UNPROVEN)
    else:
        yield from _set_changes(path, "the scope", mine, theirs)


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
        yield DefinitionChange("fix", path, "something is said differently that Toolhall does not read")
    elif after is None:
        yield _needs_less(path, quote_value(key))
    else:
        yield DefinitionChange("breaking", path, _UNPROVEN)


def _needs_more(path: str, what: str) -> DefinitionChange:
    return DefinitionChange("breaking", path, f"needs {what}")


def _needs_less(path: str, what: str) -> DefinitionChange:
    return DefinitionChange("feature", path, f"no longer needs {what}")


def _by_id(listed: Json) -> dict[str, Json]:
    entries = listed if isinstance(listed, list) else []
    return {str(each.get("id")): each for each in entries if isinstance(each, dict)}


def _scopes(entry: JsonObject) -> tuple[str, ...] | None:
    oauth = entry.get("oauth2")
    found = oauth.get("scopes", []) if isinstance(oauth, dict) else []
    return tuple(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else None


def _without_scopes(entry: JsonObject) -> JsonObject:
    oauth = entry.get("oauth2")
    rest = {key: part for key, part in oauth.items() if key != "scopes"} if isinstance(oauth, dict) else oauth
    return {**entry, "oauth2": rest or None}


# Who states no level is judged as at most this before, and as at least that after: nobody knows the hall it comes to.
_UNSTATED_BEFORE, _UNSTATED_AFTER = 1, 4
_EFFECT_RANKS: dict[Effect | None, int] = {"reads": 0, "writes": 1, "destroys": 2, None: 2}
_NO_ANNOTATIONS = Annotations()


def metadata_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    """Everything but the schemas."""
    if old.name != new.name:
        yield DefinitionChange("breaking", "/name", f"it is called {new.name!r} and not {old.name!r} any more")
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
        yield DefinitionChange("fix", "/annotations/title", "the title is another one")
    if hints or old.effect == new.effect:
        return
    ranks = _EFFECT_RANKS[old.effect], _EFFECT_RANKS[new.effect]
    kind: ChangeKind = "breaking" if ranks[0] < ranks[1] else "feature" if ranks[0] > ranks[1] else "fix"
    yield DefinitionChange(
        kind, "/effect", f"its effect was {old.effect or 'unstated'} and is {new.effect or 'unstated'}"
    )


def _hint_changes(old: Annotations, new: Annotations) -> Iterator[DefinitionChange]:
    """MCP: who says nothing may write, destroy, do it twice, and reach the outside world."""
    both_write = not old.read_only and not new.read_only
    rows = (
        ("readOnlyHint", old.read_only, new.read_only, False, True, "only to read"),
        ("destructiveHint", old.destructive, new.destructive, True, both_write, "to destroy nothing"),
        ("idempotentHint", old.idempotent, new.idempotent, False, both_write, "to do nothing more when called again"),
        ("openWorldHint", old.open_world, new.open_world, True, True, "to stay inside a closed world"),
    )
    for name, before, after, unsaid, counts, promise in rows:
        if before is after:
            continue
        was, is_now = (unsaid if hint is None else hint for hint in (before, after))
        path = f"/annotations/{name}"
        if was == is_now or not counts:
            yield DefinitionChange("fix", path, f"{name} is said differently and means the same")
        elif is_now == unsaid:
            yield DefinitionChange("breaking", path, f"no longer promises {promise}")
        else:
            yield DefinitionChange("feature", path, f"promises {promise}")


def _level_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    if old.level == new.level:
        return
    before = _UNSTATED_BEFORE if old.level is None else old.level
    after = _UNSTATED_AFTER if new.level is None else new.level
    said = [("unstated" if level is None else str(level)) for level in (old.level, new.level)]
    if after > before:
        yield DefinitionChange(
            "breaking", "/level", f"the level rises from {said[0]} to {said[1]}: callers may be refused"
        )
    else:
        yield DefinitionChange(
            "feature", "/level", f"the level falls from {said[0]} to {said[1]}: more callers may call it"
        )


def _timeout_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    if old.timeout == new.timeout:
        return
    said = [("the hall's own" if each is None else f"{each:g} s") for each in (old.timeout, new.timeout)]
    shorter = new.timeout is not None and (old.timeout is None or new.timeout < old.timeout)
    reason = f"the timeout was {said[0]} and is {said[1]}"
    unknown = old.timeout is None or new.timeout is None
    if shorter or unknown:
        reason += ": calls may be cut off" if shorter and not unknown else "; it could not be proven to be no shorter"
        yield DefinitionChange("breaking", "/timeout", reason)
    else:
        yield DefinitionChange("feature", "/timeout", reason)


def _resource_changes(old: Tool, new: Tool) -> Iterator[DefinitionChange]:
    before, after = (_by_name(tool.about.resources or ()) for tool in (old, new))
    for name in sorted(before.keys() - after.keys()):
        yield DefinitionChange("breaking", "/resources", f"the resource {name!r} is gone")
    for name in sorted(after.keys() - before.keys()):
        yield DefinitionChange("feature", "/resources", f"there is the resource {name!r}")
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
    """Members that only the tool's own dialect knows."""
    before, after = _remainder_members(old.remainder), _remainder_members(new.remainder)
    for path in sorted(before.keys() | after.keys()):
        if before.get(path, msgspec.UNSET) == after.get(path, msgspec.UNSET):
            continue
        if path.startswith("/execution"):  # MCP: whether it must, may or must not be called as a task
            yield DefinitionChange("breaking", path, "it could not be proven that it can be called as before")
        else:
            yield DefinitionChange("fix", path, "something is said differently that Toolhall does not read")


def _remainder_members(remainder: Remainder | None) -> dict[str, Json]:
    if remainder is None:
        return {}
    return {change.path: change.value for change in (*remainder.group, *remainder.item)}
