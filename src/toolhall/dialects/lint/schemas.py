"""Rules about schemas: what can be written in JSON Schema and is hardly ever meant."""

from collections.abc import Iterator

from toolhall.dialects.findings import Finding
from toolhall.dialects.lint.rule import SchemaRule, Spot, Subject, ToolRule
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.keywords import HOLDERS
from toolhall.schema.walk import children, escape

# Any of these says of what kind a value is.
_SAYS_KIND = frozenset({
    "type", "enum", "const", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "properties", "items", "prefixItems",
    "not", "if",
})  # fmt: skip
# Beside any of these, a member may be described elsewhere.
_SAYS_MORE = frozenset({"allOf", "anyOf", "oneOf", "$ref", "patternProperties"})
_HOLDERS = HOLDERS | {"$defs", "definitions", "dependencies", "additionalItems"}
_BOUNDS = (
    ("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
)  # fmt: skip


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(schema: JsonObject) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _kind_missing(path: str, schema: JsonObject) -> Iterator[Spot]:
    for name, part in _properties(schema).items():
        if part is True or (isinstance(part, dict) and _SAYS_KIND.isdisjoint(part)):
            yield Spot(f"{path}/properties/{escape(name)}")


def _default_of_required(path: str, schema: JsonObject) -> Iterator[Spot]:
    properties = _properties(schema)
    for name in _required(schema):
        if isinstance(part := properties.get(name), dict) and "default" in part:
            yield Spot(f"{path}/properties/{escape(name)}/default")


def _value_twice(path: str, schema: JsonObject) -> Iterator[Spot]:
    values = schema.get("enum")
    if isinstance(values, list) and len({encode(value) for value in values}) < len(values):
        yield Spot(f"{path}/enum")


def _unknown_required(path: str, schema: JsonObject) -> Iterator[Spot]:
    if "properties" not in schema or schema.get("additionalProperties") is False:
        return  # a part of something larger, or refused as a whole
    unknown = [name for name in _required(schema) if name not in _properties(schema)]
    if unknown and _SAYS_MORE.isdisjoint(schema):
        yield Spot(f"{path}/required", ", ".join(unknown[:5]))


def _accepts_nothing(subject: Subject) -> Iterator[Spot]:
    found = _dead_end(subject.tool.input, "/inputSchema")
    if found is not None:
        yield Spot(found)


def _dead_end(schema: Json, path: str) -> str | None:
    """Where it shows that no value at all is accepted; None if that does not show."""
    if schema is False:
        return path
    if not isinstance(schema, dict):
        return None
    if schema.get("not") in (True, {}):
        return f"{path}/not"
    for check in (_crossed, _closed_out, _no_value):
        if (found := check(schema, path)) is not None:
            return found
    needed = [(name, _properties(schema).get(name)) for name in _required(schema)]
    parts = [(f"{path}/properties/{escape(name)}", part) for name, part in needed]
    parts += [(f"{path}/allOf/{index}", part) for index, part in enumerate(_branches(schema, "allOf"))]
    ends = [end for place, part in parts if (end := _dead_end(part, place)) is not None]
    return ends[0] if ends else _no_branch(schema, path)


def _crossed(schema: JsonObject, path: str) -> str | None:
    """Bounds that leave nothing between them."""
    for low, high in _BOUNDS:
        least, most = schema.get(low), schema.get(high)
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            return f"{path}/{low}"
    return None


def _closed_out(schema: JsonObject, path: str) -> str | None:
    """A member that must be there and may not."""
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if closed and any(name not in _properties(schema) for name in _required(schema)):
        return f"{path}/required"
    return None


def _no_value(schema: JsonObject, path: str) -> str | None:
    """A list of values without any, or without the one that it must be."""
    values = schema.get("enum")
    if isinstance(values, list) and (not values or ("const" in schema and schema["const"] not in values)):
        return f"{path}/enum"
    return None


def _no_branch(schema: JsonObject, path: str) -> str | None:
    for key in ("anyOf", "oneOf"):
        branches = _branches(schema, key)
        if branches and all(_dead_end(part, "") is not None for part in branches):
            return f"{path}/{key}"
    return None


def _branches(schema: JsonObject, key: str) -> list[Json]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


RULES_OF_PARTS = (
    SchemaRule(
        id="parameter/type-missing",
        says="A parameter has no type.",
        fix="give it a type, or the values it may have",
        check=_kind_missing,
    ),
    SchemaRule(
        id="parameter/required-with-default",
        says="A required parameter has a default, which is never used.",
        fix="take the parameter off 'required', or remove the default",
        check=_default_of_required,
    ),
    SchemaRule(
        id="parameter/required-unknown",
        says="A parameter is required and not described.",
        fix="describe it under 'properties', or take it off 'required'",
        check=_unknown_required,
    ),
    SchemaRule(
        id="schema/value-twice",
        says="A list of allowed values has one of them twice.",
        fix="remove one of the two",
        check=_value_twice,
    ),
)
RULES_OF_WHOLE = (
    ToolRule(
        id="schema/accepts-nothing",
        says="An input schema accepts no arguments at all, so that the tool cannot be called.",
        fix="change this part so that something can be given",
        check=_accepts_nothing,
    ),
)
RULES = (*RULES_OF_PARTS, *RULES_OF_WHOLE)


def lint_parts(schema: Json, path: str) -> Iterator[Finding]:
    """What the rules find in each schema object of a schema, walked once."""
    pending: list[tuple[str, Json]] = [(path, schema)]
    while pending:
        path, schema = pending.pop()
        if not isinstance(schema, dict):
            continue
        for rule in RULES_OF_PARTS:
            for spot in rule.check(path, schema):
                yield rule.finding(spot.path, spot.detail)
        if not _HOLDERS.isdisjoint(schema):
            pending.extend([(child.pointer, child.schema) for child in children(schema, path)])
