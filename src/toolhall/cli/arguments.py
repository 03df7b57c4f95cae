"""Reads `key=value` words into tool arguments, coercing each value to the type its JSON Schema allows."""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.options import SourceOptions
from toolhall.cli.target_names import looks_like_target
from toolhall.model.json import Json, JsonObject
from toolhall.schema.cost import BadSchema
from toolhall.schema.defaults import Bind
from toolhall.schema.signature import with_binding_problems
from toolhall.schema.validator import Validator

_TEXT = frozenset({"string"})
_ALL_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_MAX_SCHEMAS = 50
_JSON_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def split_words(words: Sequence[str], options: SourceOptions, command: str) -> tuple[list[str], str | None]:
    """The `key=value` words, and the target, if there is one other word; `command` is its name in errors."""
    pairs = [word for word in words if "=" in word]
    others = [word for word in words if "=" not in word]
    if len(others) > 1:
        raise UsageError(f"{others[0]!r} is no key=value; {command} takes one TARGET, at its end")
    if others and (options.url or options.target or not looks_like_target(others[0])):
        raise UsageError(f"{others[0]!r} is no key=value and no target; write arguments as key=value")
    return pairs, others[0] if others else None


def read_texts(words: Sequence[str]) -> dict[str, str]:
    """The texts of `key=value` words; raises UsageError for a key that is given twice."""
    texts: dict[str, str] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name in texts:
            raise UsageError(f"{name!r} is given twice; give it once")
        texts[name] = text
    return texts


def read_arguments(words: Sequence[str], given: str | None, schema: JsonObject) -> JsonObject:
    """The arguments from `--args` and `key=value` words; raises UsageError for a key that is given twice."""
    arguments = _parse_json_arguments(given) if given is not None else {}
    seen: set[str] = set()
    for word in words:
        name, value = _parse_pair(word, schema)
        if name in seen:
            raise UsageError(f"{name!r} is given twice; write a list as {name}='[1, 2]'")
        seen.add(name)
        arguments[name] = value
    return arguments


def check_arguments(arguments: JsonObject, schema: JsonObject, bind: Bind | None = None) -> None:
    """Raise CommandError for arguments that the tool would refuse, before the person is asked to confirm the call."""
    size = len(msgspec.json.encode(arguments))
    try:
        problems = with_binding_problems(Validator(schema).problems(arguments, size), arguments, size, bind)
    except BadSchema as error:
        raise CommandError(f"the tool's input schema cannot be used: {error}") from None
    if problems:
        listed = "; ".join(str(problem) for problem in problems)
        raise CommandError(f"the arguments do not fit the tool: {listed}")


def _parse_json_arguments(text: str) -> JsonObject:
    try:
        return msgspec.json.decode(text, type=dict[str, Json])
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise UsageError("""--args must be a JSON object, for example --args '{"a": 1}'""") from None


def _parse_pair(word: str, schema: JsonObject) -> tuple[str, Json]:
    name, _, text = word.partition("=")
    forced = name.endswith(":")
    name = name.removesuffix(":")
    part = _parameter_schema(name, schema)
    if not forced:
        return name, coerce_argument(text, part, schema)
    try:
        return name, msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise UsageError(f"the value of {name}:= is not JSON; write {name}={text} for plain text") from None


def _parameter_schema(name: str, schema: JsonObject) -> Json:
    """The schema of one parameter; raises UsageError, with the nearest name, for an unknown one."""
    parameters = schema.get("properties", {})
    if name in parameters:
        return parameters[name]
    others = schema.get("additionalProperties", True)
    if others is False:
        from difflib import get_close_matches  # lazy: only for a name that is wrong

        near = get_close_matches(name, parameters, 1)
        known = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(parameters) or 'none'}"
        raise UsageError(f"the tool takes no argument {name!r}; {known}")
    return others


def coerce_argument(text: str, part: Json, root: JsonObject) -> Json:
    """The text as a JSON value if the schema allows its type, else as a string."""
    types, values = _allowed_types(part, root)
    if text in values:
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if value in values or json_type(value) in types - _TEXT or (types >= {"number"} and json_type(value) == "integer"):
        return value
    return text


def json_type(value: Json) -> str:
    """The JSON Schema type of a value."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _JSON_TYPES[type(value)]


def _allowed_types(part: Json, root: JsonObject) -> tuple[frozenset[str], list[Json]]:
    """The types that a schema allows, all if it states none, and the exact values that it names."""
    types: set[str] = set()
    values: list[Json] = []
    for each in _alternatives(part, root):
        named = each["enum"] if isinstance(each.get("enum"), list) else [each["const"]] if "const" in each else []
        values.extend(named)
        stated = each.get("type")
        if isinstance(stated, str):
            types.add(stated)
        elif isinstance(stated, list):
            types.update(map(str, stated))
        elif not named and not {"anyOf", "oneOf", "allOf", "$ref"} & each.keys():
            types |= _ALL_TYPES
    return frozenset(types), values


def _alternatives(part: Json, root: JsonObject) -> Iterator[JsonObject]:
    """A schema and the subschemas of its combinators and references, at most 50."""
    pending = [part]
    for _ in range(_MAX_SCHEMAS):
        if not pending:
            return
        schema = pending.pop()
        if not isinstance(schema, dict):
            schema = {}
        yield schema
        for word in ("anyOf", "oneOf", "allOf"):
            pending.extend(schema.get(word, []))
        if isinstance(schema.get("$ref"), str):
            pending.append(_resolve_pointer(schema["$ref"], root))


def _resolve_pointer(pointer: str, root: JsonObject) -> Json:
    target: Json = root
    for step in pointer.removeprefix("#").split("/")[1:]:
        target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return target
