"""The difference between two JSON values as a short list of changes, each applied only where it still fits."""

import hashlib
from collections.abc import Iterator

import msgspec

from toolhall.model.json import Json


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """At this pointer: what was there (a short digest, None if nothing) and what belongs there (absent: nothing)."""

    path: str
    was: str | None = None
    value: Json = msgspec.UNSET


def changes(old: Json, new: Json, path: str = "") -> Iterator[Change]:
    """What turns `old` into `new`, outermost first; lists of one length are compared item by item."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            inner = f"{path}/{_escape(key)}"
            if key in old:
                yield from changes(old[key], value, inner)
            else:
                yield Change(inner, value=value)
        for key in old:
            if key not in new:
                yield Change(f"{path}/{_escape(key)}", digest(old[key]))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from changes(before, after, f"{path}/{index}")
    elif type(old) is not type(new) or old != new:  # true is not 1, and 1 is not 1.0
        yield Change(path, digest(old), new)


def apply(changed: list[Change], value: Json) -> Json:
    """The value with every change that still finds what it was made for."""
    for change in changed:
        value = _apply(change, value)
    return value


def digest(value: Json) -> str:
    """Eight characters that change when the value does."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:8]


def _apply(change: Change, value: Json) -> Json:
    if not change.path:
        return change.value if digest(value) == change.was else value
    *parents, last = (_unescape(part) for part in change.path[1:].split("/"))
    holder = value
    for part in parents:
        holder = _part(holder, part)
    if change.was is None:
        if isinstance(holder, dict) and last not in holder:
            holder[last] = change.value
    elif (found := _part(holder, last)) is not msgspec.UNSET and digest(found) == change.was:
        _put(holder, last, change.value)
    return value


def _part(holder: Json, key: str) -> Json:
    if isinstance(holder, dict):
        return holder.get(key, msgspec.UNSET)
    if isinstance(holder, list) and key.isdigit() and int(key) < len(holder):
        return holder[int(key)]
    return msgspec.UNSET


def _put(holder: Json, key: str, value: Json) -> None:
    if isinstance(holder, list):
        holder[int(key)] = value
    elif value is msgspec.UNSET:
        del holder[key]
    else:
        holder[key] = value


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
