"""SHA-256 digests of a tool (compute_digests) over canonical JSON (RFC 8785), and differences of JSON (diff_json).

`shown` digests what a model reads, `contract` what programs rely on. Both are computed over canonical JSON.
Definitions that mean the same have the same digests: the order of keys, the spelling of numbers, of empty parts and
of tuples, and the dialect of the document do not matter.

A schema is split into texts, which a model reads, and constraints, by which a value is validated. Every part of a
schema is on at least one side, so nothing can change unnoticed. Choices (`enum`, `const`, `default`) are on both, and
so is every keyword that is not JSON Schema's own, because its meaning is unknown.

RFC 8785 is short enough to be implemented here: keys in the order of UTF-16, numbers as ECMAScript writes them, and
strings as Python's own encoder writes them. Equal values have equal bytes.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from json.encoder import JSONEncoder
from json.encoder import encode_basestring as _quoted
from math import isfinite

import msgspec

from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.tool import Effect, Remainder, Tool
from toolhall.schema.keywords import (
    DEFINITION_KEYWORDS,
    DRAFTS,
    LATEST_DRAFT,
    REFERENCE_KEYWORDS,
    SINGLE_SUBSCHEMA,
    SUBSCHEMA_LIST,
    SUBSCHEMA_MAP,
)
from toolhall.schema.types import is_closed_tuple

_MAX_SAFE_INTEGER = 2**53  # integers up to here are exact in every program
# Finds numbers that ECMAScript may spell differently from Python; false positives only cost time.
_UNUSUAL_NUMBER = re.compile(r"(?:^|[:,\[])-?(?:[0-9]+[.e]|[0-9]{16}|NaN|Infinity)")
_encode = JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_LITERALS = {None: "null", True: "true", False: "false"}


class JsonDifference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One differing path; a side without a value there is UNSET."""

    path: str
    old: Json = msgspec.UNSET
    new: Json = msgspec.UNSET


def canonical_json(value: Json) -> bytes:
    """The canonical bytes of a JSON value; strings with lone surrogates have distinct bytes too."""
    # For ASCII and small integers, Python's own encoder writes the same and is ten times as fast.
    plain = _encode(value)
    if plain.isascii() and not _UNUSUAL_NUMBER.search(plain):
        return plain.encode()
    return _encode_value(value).encode("utf-8", "surrogatepass")


def diff_json(old: Json, new: Json, ignored: Collection[str], limit: int) -> list[JsonDifference]:
    """The first `limit` differences; 1 and 1.0 are equal, and paths in `ignored` are not compared."""
    return list(islice(_differences(old, new, "", ignored), limit))


def _encode_value(value: Json) -> str:
    # Most frequent types first: schemas hold mostly strings and objects, and a start with many tools waits for this.
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{_quoted(key)}:{_encode_value(value[key])}" for key in _sorted_keys(value)]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_encode_value, value)) + "]"
    if value is None or isinstance(value, bool):
        return _LITERALS[value]
    if isinstance(value, int):
        return _encode_integer(value)
    if isinstance(value, float):
        return _encode_float(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _sorted_keys(keys: Iterable[str]) -> list[str]:
    """Keys in the order of UTF-16, which differs from Python's only above the surrogates."""
    ordered = sorted(keys)
    return ordered if all(map(str.isascii, ordered)) else sorted(ordered, key=_utf16)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _encode_integer(value: int) -> str:
    """RFC 8785 has doubles only; an integer that is none gets a suffix, or it would equal its neighbours."""
    if -_MAX_SAFE_INTEGER <= value <= _MAX_SAFE_INTEGER:
        return str(value)
    try:
        nearest = float(value)
    except OverflowError:
        return f"{value}n"
    return _encode_float(nearest) if nearest == value else f"{value}n"


def _encode_float(value: float) -> str:
    """As ECMAScript's Number::toString; Python finds the same shortest digits."""
    if not isfinite(value):
        return "null"  # as every dialect writes it
    if value == 0:
        return "0"
    mantissa, _, power = repr(abs(value)).partition("e")
    before, _, after = mantissa.partition(".")
    digits = (before + after).lstrip("0")
    # The value is 0.DIGITS times ten to the power of `point`.
    point = len(before) + int(power or 0) - (len(before + after) - len(digits))
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _format_digits(digits, point)


def _format_digits(digits: str, point: int) -> str:
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _differences(old: Json, new: Json, path: str, ignored: Collection[str]) -> Iterator[JsonDifference]:
    if path in ignored:
        return
    match old, new:
        case dict(), dict():
            for key in dict.fromkeys((*old, *new)):
                parts = old.get(key, msgspec.UNSET), new.get(key, msgspec.UNSET)
                yield from _differences(*parts, f"{path}/{escape_pointer(key)}", ignored)
        case list(), list():
            for index in range(max(len(old), len(new))):
                yield from _differences(_item(old, index), _item(new, index), f"{path}/{index}", ignored)
        case _ if _canonical_or_none(old) != _canonical_or_none(new):
            yield JsonDifference(path, old, new)
        case _:
            return


def _item(items: list[Json], index: int) -> Json:
    return items[index] if index < len(items) else msgspec.UNSET


def _canonical_or_none(value: Json) -> bytes | None:
    return None if value is msgspec.UNSET else canonical_json(value)


_TEXT_KEYWORDS = frozenset({"title", "description", "examples", "example", "$comment"})
_CONSTRAINT_KEYWORDS = frozenset({
    "type", "required", "dependentRequired", "pattern", "format", "uniqueItems", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "minContains", "maxContains", "contentEncoding", "contentMediaType", "readOnly", "writeOnly",
    "deprecated", "$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", *REFERENCE_KEYWORDS,
})  # fmt: skip
_ONE_SCHEMA = SINGLE_SUBSCHEMA | {"additionalItems"}
_SCHEMA_LIST = SUBSCHEMA_LIST | {"items"}  # a list of schemas before 2020-12
_SCHEMA_MAP = SUBSCHEMA_MAP | {"dependencies", *DEFINITION_KEYWORDS}
DIGEST_PREFIX = "sha256-"
_EFFECT_HINTS: dict[Effect | None, JsonObject] = {
    "reads": {"read_only": True},
    "writes": {"read_only": False, "destructive": False},
    "destroys": {"read_only": False, "destructive": True},
}


class Digests(msgspec.Struct, frozen=True):
    """`shown` changes with what a model reads, `contract` with what programs rely on."""

    shown: str
    contract: str


def compute_digests(tool: Tool) -> Digests:
    """The digests of one tool."""
    return Digests(_digest({"shown": visible_members(tool)}), _digest({"contract": contract_members(tool)}))


def compute_legacy_digests(tool: Tool) -> Digests:
    """The digests that older stores and locks may still hold: tuples counted as written."""
    return Digests(
        _digest({"shown": visible_members(tool)}), _digest({"contract": contract_members(tool, tuples_as_written=True)})
    )


def visible_members(tool: Tool) -> JsonObject:
    """Everything that a model, or the person using it, reads."""
    return _without_empty({
        "name": tool.name,
        "called": tool.stated,
        "title": tool.title,
        "description": tool.description,
        "hint": tool.annotations.title if tool.annotations else None,
        "input": schema_texts(tool.input),
        "output": schema_texts(tool.output.schema),
        "returns": tool.output.description,
        "tags": sorted(set(tool.tags)),
        "icons": [_without_empty(msgspec.to_builtins(icon)) for icon in tool.icons],
        "toolkit": _without_empty({"title": tool.about.title, "description": tool.about.description}),
        "uri": None if tool.resource is None else tool.resource.uri,
    })  # fmt: skip


def contract_members(tool: Tool, *, tuples_as_written: bool = False) -> JsonObject:
    """Everything that a tool promises and requires; `header_parameters` are part of the input schema."""
    return _without_empty({
        "id": [tool.id.toolkit, tool.id.tool, tool.id.version],
        "input": schema_constraints(tool.input, tuples_as_written=tuples_as_written),
        "output": [tool.output.kind, schema_constraints(tool.output.schema, tuples_as_written=tuples_as_written)],
        "hints": _hints(tool),
        "level": tool.level,
        "timeout": tool.timeout,
        "requirements": tool.requirements,
        "permissions": None if tool.permissions is None else sorted(set(tool.permissions)),
        "meta": tool.meta,
        "toolkit": _without_empty({"resources": tool.about.resources, "metadata": tool.about.metadata}),
        "task": None if tool.task is None else [tool.task.required, tool.task.after_questions],
        "beyond": _remainder_members(tool.remainder),
        "resource": None if tool.resource is None else msgspec.to_builtins(tool.resource),
        "prompt": None if tool.prompt is None else {"completes": sorted(tool.prompt.completes)},
    })  # fmt: skip


def _hints(tool: Tool) -> JsonObject:
    """The effect as hints, refined by the annotations; most dialects have only those."""
    stated = {} if tool.annotations is None else msgspec.structs.asdict(tool.annotations)
    return _EFFECT_HINTS.get(tool.effect, {}) | _without_empty(stated | {"title": None})


def _remainder_members(remainder: Remainder | None) -> list[Json]:
    """Members of the document that the model does not have: their meaning is unknown, so they must not change."""
    if remainder is None:
        return []
    changes = sorted((*remainder.group, *remainder.item), key=lambda change: change.path)
    return [[change.path, *([] if change.value is msgspec.UNSET else [change.value])] for change in changes]


def _without_empty(members: JsonObject) -> JsonObject:
    """The members that have content."""
    return {key: value for key, value in members.items() if value is not None and value not in ({}, [], ())}


def _digest(value: Json) -> str:
    return DIGEST_PREFIX + hashlib.sha256(canonical_json(value)).hexdigest()


def schema_texts(schema: Json) -> JsonObject:
    """The texts and choices of a schema, in their places; empty if there are none."""
    texts: JsonObject = {}
    for key, value in schema.items() if isinstance(schema, dict) else ():
        children = _subschemas(key, value)
        if children is None:
            texts |= {} if key in _CONSTRAINT_KEYWORDS else {key: value}
        elif inner_texts := {name: text for name, part in children.items() if (text := schema_texts(part))}:
            texts[key] = inner_texts
    return texts


def schema_constraints(schema: Json, *, tuples_as_written: bool = False) -> Json:
    """The constraints of a schema, normalized: `{}` equals `true`, and sets are sorted.

    A tuple that `maxItems` closes gets `items: false`, whether or not its author wrote so. With `tuples_as_written` it
    stays as it is, as in drafts without tuples, and in digests made before both spellings counted as one.
    """
    if not isinstance(schema, dict):
        return schema
    constraints: JsonObject = {}
    tuples_as_written = tuples_as_written or ("$schema" in schema and not _is_no_op("$schema", schema["$schema"]))
    for key, value in schema.items():
        if key not in _TEXT_KEYWORDS and not _is_no_op(key, value):
            constraints[key] = _normalized(key, value, tuples_as_written=tuples_as_written)
    if (
        "prefixItems" in constraints
        and "items" not in constraints
        and not tuples_as_written
        and is_closed_tuple(schema)
    ):
        constraints["items"] = False
    return constraints or True


def _subschemas(key: str, value: Json) -> dict[str, Json] | None:
    """The schemas that a keyword holds, by name or index; None if it holds none."""
    if key in _SCHEMA_MAP and isinstance(value, dict):
        return value
    if key in _SCHEMA_LIST and isinstance(value, list):
        return {str(index): part for index, part in enumerate(value)}
    return {"": value} if key in _ONE_SCHEMA and isinstance(value, dict | bool) else None


def _normalized(key: str, value: Json, *, tuples_as_written: bool) -> Json:
    if key in _SCHEMA_MAP and isinstance(value, dict):
        normalize = _sorted_set if key == "dependencies" else schema_constraints
        return {name: normalize(part, tuples_as_written=tuples_as_written) for name, part in value.items()}
    if key in _SCHEMA_LIST and isinstance(value, list):
        return [schema_constraints(part, tuples_as_written=tuples_as_written) for part in value]
    if key in _ONE_SCHEMA:
        return schema_constraints(value, tuples_as_written=tuples_as_written)
    return _UNORDERED[key](value) if key in _UNORDERED else value


def _is_no_op(key: str, value: Json) -> bool:
    if key == "$schema":
        return isinstance(value, str) and DRAFTS.get(value.rstrip("#")) == LATEST_DRAFT
    return value in ({}, []) and (key in _SCHEMA_MAP or key in ("required", "dependentRequired"))


def _sorted_set(value: Json, *, tuples_as_written: bool = False) -> Json:
    """A list whose order has no meaning, sorted; a schema, which `dependencies` may hold instead, as constraints."""
    if not isinstance(value, list):
        return schema_constraints(value, tuples_as_written=tuples_as_written)
    return [part for _, part in sorted({canonical_json(part): part for part in value}.items())]


def _normalized_type(value: Json) -> Json:
    kinds = _sorted_set(value)
    return kinds[0] if isinstance(kinds, list) and len(kinds) == 1 else kinds


def _sorted_sets(value: Json) -> Json:
    return {name: _sorted_set(part) for name, part in value.items()} if isinstance(value, dict) else value


_UNORDERED: dict[str, Callable[[Json], Json]] = {
    "type": _normalized_type,
    "required": _sorted_set,
    "enum": _sorted_set,
    "dependentRequired": _sorted_sets,
}
