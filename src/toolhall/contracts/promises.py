"""Changes in what a tool promises beside its schemas: effects, level, requirements, and how it is described."""

from collections.abc import Iterator

import msgspec

from toolhall.contracts.changes import Change, Kind
from toolhall.contracts.needs import needs
from toolhall.model.json import Json
from toolhall.model.tool import Annotations, Effect, Remainder, Tool

# Who states no level is judged as at most this before, and as at least that after: nobody knows the hall it comes to.
_UNSTATED_BEFORE, _UNSTATED_AFTER = 1, 4
_EFFECTS: dict[Effect | None, int] = {"reads": 0, "writes": 1, "destroys": 2, None: 2}
_UNSAID = Annotations()


def promises(old: Tool, new: Tool) -> Iterator[Change]:
    """Everything but the schemas."""
    if old.name != new.name:
        yield Change("breaking", "/name", f"it is called {new.name!r} and not {old.name!r} any more")
    yield from _effects(old, new)
    yield from _level(old, new)
    yield from needs(old, new)
    yield from _timeout(old, new)
    yield from _resources(old, new)
    yield from _described(old, new)
    yield from _remainder(old, new)


def _effects(old: Tool, new: Tool) -> Iterator[Change]:
    before, after = old.annotations or _UNSAID, new.annotations or _UNSAID
    hints = list(_hints(before, after))
    yield from hints
    if before.title != after.title:
        yield Change("fix", "/annotations/title", "the title is another one")
    if hints or old.effect == new.effect:
        return
    ranks = _EFFECTS[old.effect], _EFFECTS[new.effect]
    kind: Kind = "breaking" if ranks[0] < ranks[1] else "feature" if ranks[0] > ranks[1] else "fix"
    yield Change(kind, "/effect", f"its effect was {old.effect or 'unstated'} and is {new.effect or 'unstated'}")


def _hints(old: Annotations, new: Annotations) -> Iterator[Change]:
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
            yield Change("fix", path, f"{name} is said differently and means the same")
        elif is_now == unsaid:
            yield Change("breaking", path, f"no longer promises {promise}")
        else:
            yield Change("feature", path, f"promises {promise}")


def _level(old: Tool, new: Tool) -> Iterator[Change]:
    if old.level == new.level:
        return
    before = _UNSTATED_BEFORE if old.level is None else old.level
    after = _UNSTATED_AFTER if new.level is None else new.level
    said = [("unstated" if level is None else str(level)) for level in (old.level, new.level)]
    if after > before:
        yield Change("breaking", "/level", f"the level rises from {said[0]} to {said[1]}: callers may be refused")
    else:
        yield Change("feature", "/level", f"the level falls from {said[0]} to {said[1]}: more callers may call it")


def _timeout(old: Tool, new: Tool) -> Iterator[Change]:
    if old.timeout == new.timeout:
        return
    said = [("the hall's own" if each is None else f"{each:g} s") for each in (old.timeout, new.timeout)]
    shorter = new.timeout is not None and (old.timeout is None or new.timeout < old.timeout)
    reason = f"the timeout was {said[0]} and is {said[1]}"
    unknown = old.timeout is None or new.timeout is None
    if shorter or unknown:
        reason += ": calls may be cut off" if shorter and not unknown else "; it could not be proven to be no shorter"
        yield Change("breaking", "/timeout", reason)
    else:
        yield Change("feature", "/timeout", reason)


def _resources(old: Tool, new: Tool) -> Iterator[Change]:
    before, after = (_named(tool.about.resources or ()) for tool in (old, new))
    for name in sorted(before.keys() - after.keys()):
        yield Change("breaking", "/resources", f"the resource {name!r} is gone")
    for name in sorted(after.keys() - before.keys()):
        yield Change("feature", "/resources", f"there is the resource {name!r}")
    if any(before[name] != after[name] for name in before.keys() & after.keys()):
        yield Change("fix", "/resources", "a resource is described differently")


def _named(resources: tuple[Json, ...]) -> dict[str, Json]:
    return {str(each.get("name", index)): each for index, each in enumerate(resources)}


def _described(old: Tool, new: Tool) -> Iterator[Change]:
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
            yield Change("fix", path, f"the {path.rpartition('/')[2].lstrip('_')} changed")


def _remainder(old: Tool, new: Tool) -> Iterator[Change]:
    """Members that only the tool's own dialect knows."""
    before, after = _kept(old.remainder), _kept(new.remainder)
    for path in sorted(before.keys() | after.keys()):
        if before.get(path, msgspec.UNSET) == after.get(path, msgspec.UNSET):
            continue
        if path.startswith("/execution"):  # MCP: whether it must, may or must not be called as a task
            yield Change("breaking", path, "it could not be proven that it can be called as before")
        else:
            yield Change("fix", path, "something is said differently that Toolhall does not read")


def _kept(remainder: Remainder | None) -> dict[str, Json]:
    if remainder is None:
        return {}
    return {change.path: change.value for change in (*remainder.group, *remainder.item)}
