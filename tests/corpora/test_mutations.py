"""Corpus definitions compared with themselves and with mechanical changes whose required bump is known."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.corpora.corpora import FILES, OWN, definitions
from tests.harness.seeds import sample
from toolhall.contracts.release import diff
from toolhall.contracts.semver import Bump, required_bump
from toolhall.dialects.catalogs import detect_dialect
from toolhall.model.tool import Output, Tool

Schema = dict[str, Any]
NEW = "a_member_that_nobody_has"
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@cache
def tools(file: Path) -> tuple[Tool, ...]:
    return tuple(tool for document in sample(definitions(file)) for tool in detect_dialect(document).read(document))


def members(schema: Schema) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def with_member(schema: Schema, name: str, part: Any) -> Schema:
    return {**schema, "properties": {**members(schema), name: part}}


def demanded(schema: Schema) -> list[str]:
    return list(schema.get("required") or ())


def first(schema: Schema, wanted: Callable[[Schema], bool]) -> tuple[str, Schema] | None:
    """The first member that a change can be made to; one with a list of values is judged by those alone."""
    for name, part in members(schema).items():
        if isinstance(part, dict) and wanted(part):
            return name, part
    return None


def plain(kind: str) -> Callable[[Schema], bool]:
    return lambda part: part.get("type") == kind and not {"enum", "const", "anyOf", "oneOf", "allOf"} & part.keys()


def to_member(
    wanted: Callable[[Schema], bool], change: Callable[[Schema], Schema]
) -> Callable[[Schema], Schema | None]:
    """A change of the first member that is like that."""

    def mutate(schema: Schema) -> Schema | None:
        found = first(schema, wanted)
        return with_member(schema, found[0], change(found[1])) if found else None

    return mutate


def dropped(schema: Schema) -> Schema | None:
    if not members(schema):
        return None
    name, *_ = members(schema)
    left = {key: part for key, part in members(schema).items() if key != name}
    rest = [each for each in demanded(schema) if each != name]
    return {**schema, "properties": left, **({"required": rest} if "required" in schema else {})}


def with_optional(schema: Schema) -> Schema:
    return with_member(schema, NEW, {"type": "string"})


def with_required(schema: Schema) -> Schema:
    return {**with_optional(schema), "required": [*demanded(schema), NEW]}


def made_required(schema: Schema) -> Schema | None:
    free = [name for name in members(schema) if name not in demanded(schema)]
    return {**schema, "required": [*demanded(schema), free[0]]} if free else None


def made_optional(schema: Schema) -> Schema | None:
    listed = [name for name in demanded(schema) if name in members(schema)]
    return {**schema, "required": [each for each in demanded(schema) if each != listed[0]]} if listed else None


def without(part: Schema, key: str) -> Schema:
    return {name: value for name, value in part.items() if name != key}


def has(key: str) -> Callable[[Schema], bool]:
    return lambda part: key in part


def several(part: Schema) -> bool:
    values = part.get("enum")
    return isinstance(values, list) and len(values) > 1 and len({str(each) for each in values}) == len(values)


def unbounded(part: Schema) -> bool:
    return plain("string")(part) and not {"minLength", "maxLength", "pattern", "format"} & part.keys()


def bounded(part: Schema) -> bool:
    return plain("integer")(part) and isinstance(part.get("minimum"), int)


def nullable(part: Schema) -> bool:
    return part.get("type") == ["string", "null"] or any(
        isinstance(each, dict) and each.get("type") == "null" for each in part.get("anyOf") or ()
    )


def not_null(part: Schema) -> Schema:
    if "anyOf" in part:
        return {**part, "anyOf": [each for each in part["anyOf"] if each.get("type") != "null"] or [False]}
    return {**part, "type": "string"}


def opened(schema: Schema) -> Schema | None:
    return without(schema, "additionalProperties") if schema.get("additionalProperties") is False else None


def closed(schema: Schema) -> Schema | None:
    is_open = schema.get("additionalProperties", True) is True and members(schema)
    return {**schema, "additionalProperties": False} if is_open else None


class Mutation(NamedTuple):
    """A change, and the bump that it demands of an input and of an output."""

    change: Callable[[Schema], Schema | None]
    input: Bump
    output: Bump


MUTATIONS = {
    "a property less": Mutation(dropped, "major", "major"),
    "another required property": Mutation(with_required, "major", "minor"),
    "another optional property": Mutation(with_optional, "minor", "minor"),
    "a property required": Mutation(made_required, "major", "minor"),
    "a property optional": Mutation(made_optional, "minor", "major"),
    "a value less": Mutation(to_member(several, lambda part: {**part, "enum": part["enum"][:-1]}), "major", "minor"),
    "a value more": Mutation(to_member(several, lambda part: {**part, "enum": [*part["enum"], NEW]}), "minor", "major"),
    "a wider type": Mutation(to_member(plain("integer"), lambda part: {**part, "type": "number"}), "minor", "major"),
    "a narrower type": Mutation(to_member(plain("number"), lambda part: {**part, "type": "integer"}), "major", "minor"),
    "another type": Mutation(to_member(plain("string"), lambda part: {**part, "type": "boolean"}), "major", "major"),
    "a bound": Mutation(to_member(unbounded, lambda part: {**part, "maxLength": 7}), "major", "minor"),
    "a tighter bound": Mutation(
        to_member(bounded, lambda part: {**part, "minimum": part["minimum"] + 1}), "major", "minor"
    ),
    "a looser bound": Mutation(
        to_member(bounded, lambda part: {**part, "minimum": part["minimum"] - 1}), "minor", "major"
    ),
    "no bound": Mutation(to_member(bounded, lambda part: without(part, "minimum")), "minor", "major"),
    "a pattern": Mutation(to_member(unbounded, lambda part: {**part, "pattern": "^[a-z]+$"}), "major", "minor"),
    "another pattern": Mutation(
        to_member(has("pattern"), lambda part: {**part, "pattern": "^[a-z]{3,5}$"}), "major", "major"
    ),
    "nullable": Mutation(
        to_member(plain("string"), lambda part: {**part, "type": ["string", "null"]}), "minor", "major"
    ),
    "not nullable": Mutation(to_member(nullable, not_null), "major", "minor"),
    "other words": Mutation(to_member(bool, lambda part: {**part, "description": f"{NEW}."}), "patch", "patch"),
    "closed": Mutation(closed, "minor", "minor"),
    "opened": Mutation(opened, "minor", "minor"),
}
# What an output that was closed may not do: whoever reads it was told that there is nothing else.
CLOSED = {"another required property", "another optional property"}


def expected(mutation: str, place: str, schema: Schema) -> Bump:
    if place == "output" and mutation in CLOSED and schema.get("additionalProperties") is False:
        return "major"
    return MUTATIONS[mutation].input if place == "input" else MUTATIONS[mutation].output


def versions(tool: Tool, mutation: str) -> Iterator[tuple[str, Tool, Tool, Bump]]:
    """The tool before and after, once with its input changed and once with an output that is the same schema."""
    new = MUTATIONS[mutation].change(tool.input)
    if new is None:
        return
    yield "input", tool, msgspec.structs.replace(tool, input=new), expected(mutation, "input", tool.input)
    old, changed = (msgspec.structs.replace(tool, output=Output("schema", each)) for each in (tool.input, new))
    yield "output", old, changed, expected(mutation, "output", tool.input)


@each_file
def test_corpus_definition_compared_with_itself_has_no_changes(file: Path) -> None:
    for tool in tools(file):
        again = msgspec.json.decode(msgspec.json.encode(tool), type=Tool)
        assert diff(tool, again) == []


@each_file
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_corpus_definition_mutated_requires_the_known_version_bump(file: Path, mutation: str) -> None:
    counted: Counter[str] = Counter()
    wrong: list[str] = []
    for tool in tools(file):
        for place, old, new, bump in versions(tool, mutation):
            counted[place] += 1
            found = diff(old, new)
            if required_bump(found) != bump:
                wrong.append(f"{tool.id} {place}: {required_bump(found)}, not {bump}: {found}")
    print(f"{mutation}: {dict(counted)} in {file.stem}")  # noqa: T201 - how much the verdict rests on
    assert not wrong


def test_own_corpus_allows_every_mutation() -> None:
    never = [name for name in MUTATIONS if not any(list(versions(tool, name)) for tool in tools(OWN))]
    assert not never, "add a definition that this can be done to"
