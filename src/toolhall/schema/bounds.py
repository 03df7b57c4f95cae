"""Refuses schemas that would make a validator fetch, backtrack, recurse forever or take too long."""

from collections.abc import Iterator

import msgspec

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.expand import Expansion
from toolhall.schema.walk import children

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_SUBSCHEMAS = 2_000
MAX_VISITS = 50_000
MAX_PATTERN = 512

DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
    "http://json-schema.org/draft-07/schema": "draft-07",
}


class Bounds(msgspec.Struct, frozen=True):
    """What one validation can cost: checks made on one value, and by how much each level multiplies them."""

    visits: int
    growth: int


class BadSchema(ValueError):
    """A schema that may not be registered; carries every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in problems))


def draft_of(schema: JsonObject) -> str:
    """The JSON Schema draft that a schema is written in; 2020-12 unless it says otherwise."""
    declared = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = DRAFTS.get(declared.rstrip("#")) if isinstance(declared, str) else None
    if draft is None:
        known = ", ".join(DRAFTS)
        raise BadSchema([Problem("/$schema", f"this JSON Schema dialect is not supported; use one of {known}")])
    return draft


def measure(schema: JsonObject) -> Bounds:
    """Check every limit; the cost of the schema, or BadSchema with all that is wrong."""
    draft_of(schema)
    try:
        size = len(encode(schema))
    except RecursionError:
        raise BadSchema([Problem("", f"the schema is nested more than {MAX_DEPTH} levels deep")]) from None
    except (TypeError, ValueError) as error:
        raise BadSchema([Problem("", f"the schema is not JSON: {error}")]) from None
    if size > MAX_BYTES:
        raise BadSchema([Problem("", f"the schema has {size} bytes; at most {MAX_BYTES} are allowed")])
    problems = list(_structural_problems(schema))
    if problems:
        raise BadSchema(problems)
    expansion = Expansion(schema)
    problems = list(expansion.problems())
    if problems:
        raise BadSchema(problems)
    if expansion.visits > MAX_VISITS:
        reason = f"one value would be checked more than {MAX_VISITS} times; simplify allOf, anyOf and $ref"
        raise BadSchema([Problem("", reason)])
    return Bounds(expansion.visits, expansion.growth)


def _structural_problems(schema: JsonObject) -> Iterator[Problem]:
    """Depth, number of subschemas, references that leave the document, patterns."""
    pending: list[tuple[Json, str, int]] = [(schema, "", 1)]
    seen = 0
    while pending:
        found, pointer, depth = pending.pop()
        seen += 1
        if seen > MAX_SUBSCHEMAS:
            yield Problem(pointer, f"the schema has more than {MAX_SUBSCHEMAS} subschemas")
            return
        if depth > MAX_DEPTH:
            yield Problem(pointer, f"the schema is nested more than {MAX_DEPTH} levels deep")
            return
        if isinstance(found, bool):
            continue
        if not isinstance(found, dict):
            yield Problem(pointer, "a schema is an object, true or false")
            continue
        yield from _keyword_problems(found, pointer)
        pending.extend((child.schema, child.pointer, depth + 1) for child in children(found, pointer))


def _keyword_problems(schema: JsonObject, pointer: str) -> Iterator[Problem]:
    for key in ("$ref", "$dynamicRef", "$recursiveRef"):
        target = schema.get(key, "#")
        if not isinstance(target, str) or not target.startswith("#"):
            yield Problem(f"{pointer}/{key}", "only references inside the document ('#...') are followed; inline it")
    if pointer and "$id" in schema:
        yield Problem(f"{pointer}/$id", "an inner $id moves the base of references; remove it")
    if pointer and "$schema" in schema:
        yield Problem(f"{pointer}/$schema", "only the root may name its dialect; remove it")
    patterns = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    if isinstance(schema.get("patternProperties"), dict):
        patterns.extend(schema["patternProperties"])
    if any(len(pattern) > MAX_PATTERN for pattern in patterns):
        yield Problem(pointer, f"a pattern has more than {MAX_PATTERN} characters; shorten it")
