"""Properties of the compatibility proof on random schemas: compatible inputs refuse nothing that was accepted."""

from random import Random
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.properties.schema_pairs import changed, document, fitting, is_declared
from toolhall.contracts.release import diff
from toolhall.contracts.semver import DefinitionChange, required_bump
from toolhall.contracts.subschema.comparison import find_narrowings
from toolhall.contracts.subschema.value_facts import breaks_promise
from toolhall.model.names import ToolId
from toolhall.model.tool import Output, Tool
from toolhall.schema.cost import BadSchema
from toolhall.schema.validator import Validator

TRIED = 40
seeds = st.integers(0, 2**32)


def is_sound(schema: Any) -> bool:
    try:
        Validator(schema)
    except BadSchema:  # it leads back to itself, or asks for too much
        return False
    return True


def tool(schema: Any = None, output: Any = None) -> Tool:
    returned = Output() if output is None else Output("schema", output)
    return Tool(id=ToolId("T", "t", "1.0.0"), name="T_t", input=schema or {"type": "object"}, output=returned)


def rejected_values(random: Random, source: Any, target: Any) -> list[Any]:
    """Values of declared members that the one accepts and the other does not."""
    accepts, also = Validator(source).accepts, Validator(target).accepts
    values = [fitting(random, source, [source]) for _ in range(TRIED)]
    return [each for each in values if accepts(each) and is_declared(source, [source], each) and not also(each)]


def is_breaking(changes: list[DefinitionChange]) -> bool:
    return any(change.kind == "breaking" for change in changes)


@settings(max_examples=examples(500))
@given(seeds)
def test_compatible_input_schema_accepts_every_value_of_the_old_one(seed: int) -> None:
    random = Random(seed)
    old = document(random)
    new = changed(random, old)
    assume(is_sound(old) and is_sound(new))
    if not is_breaking(diff(tool(old), tool(new))):
        assert rejected_values(random, old, new) == []


@settings(max_examples=examples(500))
@given(seeds)
def test_compatible_output_schema_returns_only_values_of_the_old_one(seed: int) -> None:
    random = Random(seed)
    old = document(random)
    new = changed(random, old)
    assume(is_sound(old) and is_sound(new))
    if not is_breaking(diff(tool(output=old), tool(output=new))):
        assert rejected_values(random, new, old) == []


def test_schema_changes_that_reject_nothing_are_mostly_compatible() -> None:
    """Caution must not eat the use of it: what is called breaking mostly breaks something."""
    random = Random(4)
    pairs = [(old, changed(random, old)) for old in (document(random) for _ in range(500))]
    harmless = [
        (old, new) for old, new in pairs if is_sound(old) and is_sound(new) and not rejected_values(random, old, new)
    ]
    proven = [1 for old, new in harmless if not breaks_promise(find_narrowings(old, new))]
    assert len(harmless) > 200
    assert len(proven) / len(harmless) > 0.7


@settings(max_examples=examples(300))
@given(seeds)
def test_schema_compared_with_itself_has_no_changes(seed: int) -> None:
    schema = document(Random(seed))
    assume(is_sound(schema))
    assert not find_narrowings(schema, msgspec.json.decode(msgspec.json.encode(schema)))
    one = tool(schema, schema)
    assert diff(one, one) == []


@settings(max_examples=examples(300))
@given(seeds)
def test_reordered_schemas_require_no_version_bump(seed: int) -> None:
    """What is the same as the same is the same; the order of members is nothing."""
    random = Random(seed)
    first = document(random)
    second, third = shuffled(random, first), shuffled(random, first)
    tools = [tool(schema, schema) for schema in (first, second, third)]
    assert required_bump(diff(tools[0], tools[1])) == required_bump(diff(tools[1], tools[2])) == "none"
    assert required_bump(diff(tools[0], tools[2])) == "none"


def shuffled(random: Random, value: Any) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(random, part)) for key, part in value.items()]
        random.shuffle(items)
        return dict(items)
    return [shuffled(random, part) for part in value] if isinstance(value, list) else value


@settings(max_examples=examples(300))
@given(seeds)
def test_definition_change_path_exists_in_the_old_or_new_schema(seed: int) -> None:
    random = Random(seed)
    old = document(random)
    new = changed(random, old)
    for change in diff(tool(old), tool(new)):
        assert any(path_exists(change.path, {"inputSchema": schema}) for schema in (old, new)), change
        assert change.reason


def path_exists(path: str, found: Any) -> bool:
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
