"""JSON types, the shared encoder, JSON Pointer escaping (RFC 6901), and differences between JSON values (JsonChange).

A change is applied only if its place in the document has not changed in the meantime: a replaced or removed value must
still have the digest that it had when the diff was made, and the object that gets an addition must still have the same
`type`. List items are matched by their `name` if all have a unique one; other lists are compared by position.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

# Any is deliberate: JSON from outside has no known type until it has been validated.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Json]
encode = msgspec.json.Encoder().encode
_CONTAINERS = (dict, list)
# A bool is an int to Python, so it comes first.
_TYPE_NAMES = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"),
)  # fmt: skip
_SCALARS = frozenset({str, int, float, bool, type(None)})


def type_name(value: Json) -> str:
    """The JSON Schema type of a value."""
    return next((name for kinds, name in _TYPE_NAMES if isinstance(value, kinds)), "null")


def walk_levels(value: Json) -> Iterator[list[Json]]:
    """The objects and lists in a value, level by level, without recursion and fast for wide values."""
    level = [value] if type(value) in _CONTAINERS else []
    while level:
        yield level
        inner: list[Json] = []
        for part in level:
            children = part.values() if type(part) is dict else part
            if not _SCALARS.issuperset(map(type, children)):
                inner.extend([each for each in children if type(each) in _CONTAINERS])
        level = inner


def escape_pointer(part: str) -> str:
    """Escape one reference token of a JSON Pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part


def unescape_pointer(part: str) -> str:
    """Reverse `escape_pointer`."""
    return part.replace("~1", "/").replace("~0", "~")


_NAME_PREFIX = "="  # marks a path part that selects a list item by its name
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_decode = msgspec.json.Decoder().decode
_canonical = msgspec.json.Encoder(order="deterministic").encode


class JsonChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change at a path: the digest of the old value (None: there was none) and the new value (UNSET: removed).

    The fields are stored data: they must not be renamed.
    """

    path: str
    was: str | None = None
    value: Json = msgspec.UNSET
    beside: Json = None  # for an addition: the `type` of the object that it is added to


def diff_json(old: Json, new: Json) -> list[JsonChange]:
    """The changes that turn `old` into `new`, outermost first."""
    changes: list[JsonChange] = []
    _compare(old, new, "", changes)
    return changes


def apply_changes(changes: Sequence[JsonChange], value: Json) -> Json:
    """A copy of the value with every change that still applies."""
    if not changes:
        return value
    value = _decode(encode(value))  # a copy, at a quarter of the cost of copy.deepcopy
    for change in changes:
        value = _apply_change(change, value)
    return value


def short_digest(value: Json) -> str:
    """Eight characters of the SHA-256 of a value's canonical JSON; 1, 1.0 and true differ."""
    return _text_digest(value) if type(value) is str else _bytes_digest(_canonical(value))


def change_pointer(path: str, value: Json) -> str:
    """The path of a change as a JSON Pointer into `value`: list items by position instead of by name."""
    if "/" + _NAME_PREFIX not in path:
        return path
    parts: list[str] = []
    for part in path.split("/")[1:]:
        key = unescape_pointer(part)
        position = _index_of(value, key) if isinstance(value, list) else None
        parts.append(part if position is None else str(position))
        value = _child(value, key)
    return "".join(f"/{part}" for part in parts)


@lru_cache(maxsize=256)
def _text_digest(text: str) -> str:
    """Cached, because the same few strings are replaced again and again: the names of types."""
    return _bytes_digest(_canonical(text))


def _bytes_digest(encoded: bytes) -> str:
    return hashlib.sha256(encoded).hexdigest()[:8]


def _compare(old: Json, new: Json, path: str, changes: list[JsonChange]) -> None:
    if old is new:
        return
    kind = type(new)
    if type(old) is not kind:  # true is not 1, and 1 is not 1.0
        changes.append(JsonChange(path, short_digest(old), new))
    elif kind is dict:
        _compare_objects(old, new, path, changes)
    elif kind is list:
        _compare_lists(old, new, path, changes)
    elif old != new:
        changes.append(JsonChange(path, short_digest(old), new))


def _compare_objects(old: JsonObject, new: JsonObject, path: str, changes: list[JsonChange]) -> None:
    if _is_substitution(old, new):
        changes.append(JsonChange(path, short_digest(old), new))
        return
    for key, after in new.items():
        if key not in old:
            if key != "type":
                changes.append(JsonChange(f"{path}/{escape_pointer(key)}", value=after, beside=old.get("type")))
        elif (before := old[key]) is not after and key != "type":
            _compare(before, after, f"{path}/{escape_pointer(key)}", changes)
    for key, before in old.items():
        if key not in new:
            changes.append(JsonChange(f"{path}/{escape_pointer(key)}", short_digest(before)))
    if "type" in new:  # last, because additions are applied only while the type is still the old one
        if "type" in old:
            _compare(old["type"], new["type"], f"{path}/type", changes)
        else:
            changes.append(JsonChange(f"{path}/type", value=new["type"]))


def _is_substitution(old: JsonObject, new: JsonObject) -> bool:
    """Whether one object replaces the other as a whole, such as a reference or a wrapper for what it stands for.

    Changes of single members could then be applied in part, with a result that is neither of the two.
    """
    if ("$ref" in old) is not ("$ref" in new):
        return True
    if old.keys() <= new.keys():
        return False
    removes_containers = any(type(part) not in _SCALARS for key, part in old.items() if key not in new)
    return removes_containers and (old.get("type") != new.get("type") or old.keys().isdisjoint(new))


def _compare_lists(old: list[Json], new: list[Json], path: str, changes: list[JsonChange]) -> None:
    if len(old) != len(new):
        changes.append(JsonChange(path, short_digest(old), new))
        return
    names = _item_names(new)
    named = names is not None and names == _item_names(old)
    for index, (before, after) in enumerate(zip(old, new, strict=True)):
        if named:
            _compare(before, after, f"{path}/{_NAME_PREFIX}{escape_pointer(after['name'])}", changes)
        elif _canonical(before) != _canonical(after):
            changes.append(JsonChange(f"{path}/{index}", short_digest(before), after))


def _item_names(items: list[Json]) -> list[str] | None:
    """The names of a list's items, if all have a unique one."""
    names = [item["name"] for item in items if type(item) is dict and type(item.get("name")) is str]
    return names if len(set(names)) == len(items) else None


def _apply_change(change: JsonChange, value: Json) -> Json:
    if not change.path:
        applies = change.value is not msgspec.UNSET and short_digest(value) == change.was
        return change.value if applies else value
    *parents, last = (unescape_pointer(part) for part in change.path[1:].split("/"))
    holder = value
    for part in parents:
        holder = _child(holder, part)
        if holder is msgspec.UNSET:
            return value
    if change.was is None:
        if isinstance(holder, dict) and last not in holder and holder.get("type") == change.beside:
            _set_child(holder, last, change.value)
    elif (current := _child(holder, last)) is not msgspec.UNSET and short_digest(current) == change.was:
        _set_child(holder, last, change.value)
    return value


def _child(holder: Json, key: str) -> Json:
    if isinstance(holder, dict):
        return holder.get(key, msgspec.UNSET)
    position = _index_of(holder, key) if isinstance(holder, list) else None
    return msgspec.UNSET if position is None else holder[position]


def _index_of(items: list[Json], key: str) -> int | None:
    """The index of the list item that a path part selects, by name or by number."""
    if key.startswith(_NAME_PREFIX):
        name = key.removeprefix(_NAME_PREFIX)
        named = (index for index, item in enumerate(items) if isinstance(item, dict) and item.get("name") == name)
        return next(named, None)
    return int(key) if _INDEX.fullmatch(key) and int(key) < len(items) else None


def _set_child(holder: Json, key: str, value: Json) -> None:
    if isinstance(holder, list):
        position = _index_of(holder, key)
        if position is not None and value is not msgspec.UNSET:
            holder[position] = value
    elif value is msgspec.UNSET:
        holder.pop(key, None)
    else:
        holder[key] = value
