"""From `key=value` words to the arguments of a call, with each value read as the tool's schema wants it."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import msgspec

from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.model.json import Json, JsonObject
from toolhall.schema.binding import with_forms
from toolhall.schema.bounds import BadSchema
from toolhall.schema.readings import Bind
from toolhall.schema.validator import Validator

_TEXT = frozenset({"string"})
_ANY = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_MOST_STEPS = 50
_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def read_arguments(words: Sequence[str], given: str | None, schema: JsonObject) -> JsonObject:
    """The arguments: those of `--args`, then each word's."""
    arguments = _given(given) if given is not None else {}
    seen: set[str] = set()
    for word in words:
        name, value = _pair(word, schema)
        if name in seen:
            raise WrongUsage(f"{name!r} is given twice; write a list as {name}='[1, 2]'")
        seen.add(name)
        arguments[name] = value
    return arguments


def check_arguments(arguments: JsonObject, schema: JsonObject, bind: Bind | None = None) -> None:
    """Refuse what the tool would refuse, before anybody is asked about it; `bind` is how its function takes them."""
    size = len(msgspec.json.encode(arguments))
    try:
        problems = with_forms(Validator(schema).problems(arguments, size), arguments, size, bind)
    except BadSchema as error:
        raise CommandFailed(f"the tool's input schema cannot be used: {error}") from None
    if problems:
        listed = "; ".join(str(problem) for problem in problems)
        raise CommandFailed(f"the arguments do not fit the tool: {listed}")


def _given(text: str) -> JsonObject:
    try:
        return msgspec.json.decode(text, type=dict[str, Json])
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise WrongUsage("""--args must be a JSON object, for example --args '{"a": 1}'""") from None


def _pair(word: str, schema: JsonObject) -> tuple[str, Json]:
    name, _, text = word.partition("=")
    forced = name.endswith(":")
    name = name.removesuffix(":")
    part = _parameter(name, schema)
    if not forced:
        return name, coerced(text, part, schema)
    try:
        return name, msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise WrongUsage(f"the value of {name}:= is not JSON; write {name}={text} for plain text") from None


def _parameter(name: str, schema: JsonObject) -> Json:
    """The schema of one parameter; a name that the tool does not take is a mistake worth a hint."""
    parameters = schema.get("properties", {})
    if name in parameters:
        return parameters[name]
    others = schema.get("additionalProperties", True)
    if others is False:
        near = get_close_matches(name, parameters, 1)
        known = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(parameters) or 'none'}"
        raise WrongUsage(f"the tool takes no argument {name!r}; {known}")
    return others


def coerced(text: str, part: Json, root: JsonObject) -> Json:
    """The text as a value of the kinds that the schema allows; text where it allows that, and nothing else fits."""
    kinds, values = _allowed(part, root)
    if text in values:
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if value in values or kind_of(value) in kinds - _TEXT or (kinds >= {"number"} and kind_of(value) == "integer"):
        return value
    return text


def kind_of(value: Json) -> str:
    """JSON Schema's word for the kind of a value."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _KINDS[type(value)]


def _allowed(part: Json, root: JsonObject) -> tuple[frozenset[str], list[Json]]:
    """The kinds of value a schema may take, and the exact values it names; any kind where it does not say."""
    kinds: set[str] = set()
    values: list[Json] = []
    for each in _alternatives(part, root):
        named = each["enum"] if isinstance(each.get("enum"), list) else [each["const"]] if "const" in each else []
        values.extend(named)
        stated = each.get("type")
        if isinstance(stated, str):
            kinds.add(stated)
        elif isinstance(stated, list):
            kinds.update(map(str, stated))
        elif not named and not {"anyOf", "oneOf", "allOf", "$ref"} & each.keys():
            kinds |= _ANY
    return frozenset(kinds), values


def _alternatives(part: Json, root: JsonObject) -> Iterator[JsonObject]:
    """A schema and all that it refers to, a bounded number of them."""
    pending = [part]
    for _ in range(_MOST_STEPS):
        if not pending:
            return
        schema = pending.pop()
        if not isinstance(schema, dict):
            schema = {}
        yield schema
        for word in ("anyOf", "oneOf", "allOf"):
            pending.extend(schema.get(word, []))
        if isinstance(schema.get("$ref"), str):
            pending.append(_referred(schema["$ref"], root))


def _referred(pointer: str, root: JsonObject) -> Json:
    found: Json = root
    for step in pointer.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
