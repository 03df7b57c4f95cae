"""Notes on the fields of nested classes reach the schema, however they are written."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from annotated_types import Ge, MaxLen
from pydantic import Field

from toolhall.schema.types import schemas_of


@dataclass
class Plain:
    name: Annotated[str, "What it is called"]
    size: Annotated[int, Ge(1), "How many"]
    tags: Annotated[list[str], MaxLen(3)]
    when: datetime
    code: Annotated[str, Field(description="A code", max_length=4)]


class Dictionary(TypedDict):
    name: Annotated[str, "What it is called"]


class Renamed(msgspec.Struct, rename="camel"):
    long_name: Annotated[str, "What it is called"]
    own: Annotated[int, msgspec.Meta(ge=2, description="read by msgspec")]


@dataclass
class Outer:
    inner: list[Plain]


def properties(hint: Any) -> dict[str, Any]:
    found: dict[str, Any] = schemas_of([hint])[0]["properties"]
    return found


def test_fields_have_descriptions_bounds_and_formats() -> None:
    assert properties(Plain) == {
        "name": {"type": "string", "description": "What it is called"},
        "size": {"type": "integer", "minimum": 1, "description": "How many"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "when": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "description": "A code", "maxLength": 4},
    }


def test_fields_in_lists_of_classes() -> None:
    assert properties(Outer)["inner"]["items"]["properties"]["name"]["description"] == "What it is called"


@pytest.mark.parametrize("hint", [Dictionary | None, dict[str, Dictionary]], ids=["union", "mapping"])
def test_fields_in_typed_dicts(hint: Any) -> None:
    assert "What it is called" in str(schemas_of([hint]))


def test_fields_renamed_and_with_meta() -> None:
    assert properties(Renamed) == {
        "longName": {"type": "string", "description": "What it is called"},
        "own": {"type": "integer", "minimum": 2, "description": "read by msgspec"},
    }
