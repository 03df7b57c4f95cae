"""Lint rules about input schemas: valid but hardly ever intended, or refused by model APIs."""

from collections.abc import Iterator

from toolhall.dialects.findings import Finding
from toolhall.dialects.lint.rule import LintedTool, SchemaRule, ToolRule, Violation
from toolhall.dialects.model_apis import gemini
from toolhall.dialects.model_apis.openai_strict import NotStrict, strict_parameters
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.schema.adapt import adapt_schema
from toolhall.schema.keywords import SUBSCHEMA_KEYWORDS, subschemas

# Any of these determines the type of a value.
_TYPE_KEYWORDS = frozenset({
    "type", "enum", "const", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "properties", "items", "prefixItems",
    "not", "if",
})  # fmt: skip
# With any of these, a member may be described elsewhere.
_DESCRIBES_ELSEWHERE = frozenset({"allOf", "anyOf", "oneOf", "$ref", "patternProperties"})
_SUBSCHEMA_KEYWORDS = SUBSCHEMA_KEYWORDS | {"$defs", "definitions", "dependencies", "additionalItems"}
_BOUND_PAIRS = (
    ("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
)  # fmt: skip
# Strict mode also wants every object closed and every member required; hardly any schema is, so it is not reported.
_IGNORED_KEYWORDS = frozenset({"additionalProperties", "required", "type", "default"})
_STRICT_PREFIX = "openai/strict-"


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(schema: JsonObject) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _type_missing(path: str, schema: JsonObject) -> Iterator[Violation]:
    for name, part in _properties(schema).items():
        if part is True or (isinstance(part, dict) and _TYPE_KEYWORDS.isdisjoint(part)):
            yield Violation(f"{path}/properties/{escape_pointer(name)}")


def _default_of_required(path: str, schema: JsonObject) -> Iterator[Violation]:
    properties = _properties(schema)
    for name in _required(schema):
        if isinstance(part := properties.get(name), dict) and "default" in part:
            yield Violation(f"{path}/properties/{escape_pointer(name)}/default")


def _duplicate_enum_value(path: str, schema: JsonObject) -> Iterator[Violation]:
    values = schema.get("enum")
    if isinstance(values, list) and len({encode(value) for value in values}) < len(values):
        yield Violation(f"{path}/enum")


def _unknown_required(path: str, schema: JsonObject) -> Iterator[Violation]:
    if "properties" not in schema or schema.get("additionalProperties") is False:
        return  # a fragment of a larger schema, or reported by _forbidden_required
    unknown = [name for name in _required(schema) if name not in _properties(schema)]
    if unknown and _DESCRIBES_ELSEWHERE.isdisjoint(schema):
        yield Violation(f"{path}/required", ", ".join(unknown[:5]))


def _accepts_nothing(subject: LintedTool) -> Iterator[Violation]:
    found = _unsatisfiable_at(subject.tool.input, "/inputSchema")
    if found is not None:
        yield Violation(found)


def _unsatisfiable_at(schema: Json, path: str) -> str | None:
    """The pointer to what makes a schema refuse every value; None if none is evident."""
    if schema is False:
        return path
    if not isinstance(schema, dict):
        return None
    if schema.get("not") in (True, {}):
        return f"{path}/not"
    for check in (_crossed_bounds, _forbidden_required, _empty_enum):
        if (pointer := check(schema, path)) is not None:
            return pointer
    needed = [(name, _properties(schema).get(name)) for name in _required(schema)]
    parts = [(f"{path}/properties/{escape_pointer(name)}", part) for name, part in needed]
    parts += [(f"{path}/allOf/{index}", part) for index, part in enumerate(_branches(schema, "allOf"))]
    unsatisfiable = [
        pointer_in_part
        for part_pointer, part in parts
        if (pointer_in_part := _unsatisfiable_at(part, part_pointer)) is not None
    ]
    return unsatisfiable[0] if unsatisfiable else _unsatisfiable_branches(schema, path)


def _crossed_bounds(schema: JsonObject, path: str) -> str | None:
    """A minimum above its maximum."""
    for low, high in _BOUND_PAIRS:
        minimum, maximum = schema.get(low), schema.get(high)
        if isinstance(minimum, int | float) and isinstance(maximum, int | float) and minimum > maximum:
            return f"{path}/{low}"
    return None


def _forbidden_required(schema: JsonObject, path: str) -> str | None:
    """A required member that a closed object does not describe."""
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if closed and any(name not in _properties(schema) for name in _required(schema)):
        return f"{path}/required"
    return None


def _empty_enum(schema: JsonObject, path: str) -> str | None:
    """An empty enum, or one without the `const` value."""
    values = schema.get("enum")
    if isinstance(values, list) and (not values or ("const" in schema and schema["const"] not in values)):
        return f"{path}/enum"
    return None


def _unsatisfiable_branches(schema: JsonObject, path: str) -> str | None:
    for key in ("anyOf", "oneOf"):
        branches = _branches(schema, key)
        if branches and all(_unsatisfiable_at(part, "") is not None for part in branches):
            return f"{path}/{key}"
    return None


def _branches(schema: JsonObject, key: str) -> list[Json]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


SUBSCHEMA_RULES = (
    SchemaRule(
        id="parameter/type-missing",
        summary="A parameter has no type.",
        fix="give it a type, or the values it may have",
        check=_type_missing,
    ),
    SchemaRule(
        id="parameter/required-with-default",
        summary="A required parameter has a default, which is never used.",
        fix="take the parameter off 'required', or remove the default",
        check=_default_of_required,
    ),
    SchemaRule(
        id="parameter/required-unknown",
        summary="A parameter is required and not described.",
        fix="describe it under 'properties', or take it off 'required'",
        check=_unknown_required,
    ),
    SchemaRule(
        id="schema/value-twice",
        summary="A list of allowed values has one of them twice.",
        fix="remove one of the two",
        check=_duplicate_enum_value,
    ),
)
WHOLE_SCHEMA_RULES = (
    ToolRule(
        id="schema/accepts-nothing",
        summary="An input schema accepts no arguments at all, so that the tool cannot be called.",
        fix="change this part so that something can be given",
        check=_accepts_nothing,
    ),
)
SCHEMA_RULES = (*SUBSCHEMA_RULES, *WHOLE_SCHEMA_RULES)


def lint_subschemas(schema: Json, path: str) -> Iterator[Finding]:
    """The violations in each schema object of a schema, in one walk."""
    pending: list[tuple[str, Json]] = [(path, schema)]
    while pending:
        path, schema = pending.pop()
        if not isinstance(schema, dict):
            continue
        for rule in SUBSCHEMA_RULES:
            for violation in rule.check(path, schema):
                yield rule.finding(violation.path, violation.detail)
        if not _SUBSCHEMA_KEYWORDS.isdisjoint(schema):
            pending.extend([(child.pointer, child.schema) for child in subschemas(schema, path)])


def _not_strict(subject: LintedTool) -> Iterator[Violation]:
    try:
        strict_parameters(subject.tool.input)
    except NotStrict as refused:
        named = [
            (finding.path, finding.rule.removeprefix(_STRICT_PREFIX))
            for finding in refused.findings
            if _STRICT_PREFIX in finding.rule
        ]
        yield from _one_violation([(path, keyword) for path, keyword in named if keyword not in _IGNORED_KEYWORDS])


def _not_for_gemini(subject: LintedTool) -> Iterator[Violation]:
    losses = [loss for loss in adapt_schema(subject.tool.input, gemini.TARGET).losses if loss.widens and loss.keyword]
    yield from _one_violation(
        [(f"/inputSchema{loss.path}", loss.keyword) for loss in losses if loss.keyword not in _IGNORED_KEYWORDS]
    )


def _one_violation(located_keywords: list[tuple[str, str]]) -> Iterator[Violation]:
    """One warning for all keywords of a tool, located at the first."""
    if located_keywords:
        yield Violation(located_keywords[0][0], ", ".join(sorted({keyword for _, keyword in located_keywords})))


MODEL_API_RULES = (
    ToolRule(
        id="schema/not-for-openai-strict",
        summary="A schema uses keywords that OpenAI's strict mode refuses.",
        fix="leave these out, or convert to openai and not to openai@strict",
        check=_not_strict,
    ),
    ToolRule(
        id="schema/not-for-gemini",
        summary="A schema uses keywords that Gemini cannot take; more arguments are accepted there.",
        fix="leave these out, or check them in the tool as well",
        check=_not_for_gemini,
    ),
)
