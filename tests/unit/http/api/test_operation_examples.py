"""Every management operation of `/openapi.json` has a summary, an operation id and examples that fit its schemas."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from toolhall.dialects.catalogs import READABLE_DIALECTS
from toolhall.dialects.openapi.examples import EXAMPLES
from toolhall.dialects.openapi.paths import MANAGEMENT_SCHEMAS, management_paths

FIX = "add its request and response to EXAMPLES in src/toolhall/dialects/openapi"
LONGEST_SUMMARY = 100
COMPONENTS = {"schemas": MANAGEMENT_SCHEMAS}


def operations() -> Iterator[Any]:
    for path, item in management_paths(READABLE_DIALECTS).items():
        for method, operation in item.items():
            yield pytest.param(operation, id=f"{method} {path}")


def examples(operation: Any) -> Iterator[tuple[Any, Any]]:
    """Every example of an operation, with its schema."""
    successes = [said for status, said in operation["responses"].items() if status.startswith("2")]
    assert successes
    for part in (*successes, operation.get("requestBody")):
        for described in part["content"].values() if part else ():
            assert "example" in described or "text/event-stream" in part["content"], FIX
            if "example" in described:
                yield described["schema"], described["example"]


@pytest.mark.parametrize("operation", list(operations()))
def test_operation_has_summary_id_and_valid_examples(operation: Any) -> None:
    assert 0 < len(operation["summary"]) <= LONGEST_SUMMARY
    assert not operation["summary"].endswith(".")
    assert operation["operationId"].startswith("management.")
    found = list(examples(operation))
    assert found, FIX
    for schema, example in found:
        judge = jsonschema_rs.validator_for({**schema, "components": COMPONENTS}, validate_formats=True)
        assert [str(error) for error in judge.iter_errors(example)] == []


def test_examples_belong_to_operations() -> None:
    known = {operation.values[0]["operationId"].removeprefix("management.") for operation in operations()}
    assert set(EXAMPLES) <= known, "an operation was renamed or removed; rename or remove its example"
