"""Changes in what a call needs before the tool may run: secrets, accounts, the user's id, permissions."""

from collections.abc import Iterator

from toolhall.contracts.changes import Change
from toolhall.contracts.narrowing.gap import shown
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.walk import escape

_LISTS = {"authorization": "the account", "secrets": "the secret"}
_UNPROVEN = "it could not be proven that no more is needed than before"


def needs(old: Tool, new: Tool) -> Iterator[Change]:
    """More than before breaks callers that do not have it; less is a feature."""
    before, after = old.requirements or {}, new.requirements or {}
    for key, what in _LISTS.items():
        yield from _listed(f"/requirements/{key}", what, _by_id(before.get(key)), _by_id(after.get(key)))
    if bool(before.get("user_id")) != bool(after.get("user_id")):
        path = "/requirements/user_id"
        yield _more(path, "the user's id") if after.get("user_id") else _less(path, "the user's id")
    for key in sorted((before.keys() | after.keys()) - _LISTS.keys() - {"user_id"}):
        yield from _other(key, before.get(key), after.get(key))
    yield from _sets("/permissions", "the permission", old.permissions or (), new.permissions or ())


def _listed(path: str, what: str, before: dict[str, Json], after: dict[str, Json]) -> Iterator[Change]:
    yield from _sets(path, what, tuple(before), tuple(after))
    for name in before.keys() & after.keys():
        if before[name] != after[name]:
            yield from _account(path, before[name], after[name])


def _account(path: str, before: Json, after: Json) -> Iterator[Change]:
    """One that is needed as before, and described differently: perhaps with other scopes."""
    mine, theirs = _scopes(before), _scopes(after)
    if mine is None or theirs is None or _but_scopes(before) != _but_scopes(after):
        yield Change("breaking", path, _UNPROVEN)
    else:
        yield from _sets(path, "the scope", mine, theirs)


def _sets(path: str, what: str, before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[Change]:
    for name in sorted(set(after) - set(before)):
        yield _more(path, f"{what} {shown(name)}")
    for name in sorted(set(before) - set(after)):
        yield _less(path, f"{what} {shown(name)}")


def _other(key: str, before: Json, after: Json) -> Iterator[Change]:
    if before == after:
        return
    path = f"/requirements/{escape(key)}"
    if key.startswith("x-"):
        yield Change("fix", path, "something is said differently that Toolhall does not read")
    elif after is None:
        yield _less(path, shown(key))
    else:
        yield Change("breaking", path, _UNPROVEN)


def _more(path: str, what: str) -> Change:
    return Change("breaking", path, f"needs {what}")


def _less(path: str, what: str) -> Change:
    return Change("feature", path, f"no longer needs {what}")


def _by_id(listed: Json) -> dict[str, Json]:
    entries = listed if isinstance(listed, list) else []
    return {str(each.get("id")): each for each in entries if isinstance(each, dict)}


def _scopes(entry: JsonObject) -> tuple[str, ...] | None:
    oauth = entry.get("oauth2")
    found = oauth.get("scopes", []) if isinstance(oauth, dict) else []
    return tuple(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else None


def _but_scopes(entry: JsonObject) -> JsonObject:
    oauth = entry.get("oauth2")
    rest = {key: part for key, part in oauth.items() if key != "scopes"} if isinstance(oauth, dict) else oauth
    return {**entry, "oauth2": rest or None}
