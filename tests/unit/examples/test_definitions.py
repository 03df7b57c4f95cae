"""The example tools say what the documents of the same names say, in OXP's words."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolhall.authoring.definition import definitions_of
from toolhall.dialects.convert.export import write_tools
from toolhall.examples.calculator import Calculator
from toolhall.examples.doorbell import Doorbell
from toolhall.examples.gmail import Gmail
from toolhall.examples.sms import SMS
from toolhall.examples.system import System

VECTORS = Path(__file__).parents[2] / "vectors" / "oxp"
NAMES = ["calculator_add", "doorbell_ring", "gmail_getemails", "sms_send", "system_gettimestamp"]
# What the hall adds to every tool: it refuses arguments that nobody declared, and says what is assumed.
ADDED = {"additionalProperties": False, "default": ""}
KITS = (Calculator, Doorbell, Gmail, SMS, System)


def published() -> dict[str, Any]:
    tools = [definition.tool for kit in KITS for definition in definitions_of(kit)]
    return {document["name"].lower(): document for document in write_tools("oxp", tools).documents}


def plain(schema: Any, *, named: bool = False) -> Any:
    """A schema without what the hall adds, Python's own names and texts, and empty `required` and `properties`."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    texts = ("title", "description") if "properties" in schema and not named else ()
    return {
        key: plain(value, named=key == "properties")
        for key, value in schema.items()
        if key not in texts and (key, value) not in [*ADDED.items(), ("required", []), ("properties", {})]
    }


@pytest.mark.parametrize("name", NAMES)
def test_example_tool_definition_equals_its_oxp_document(name: str) -> None:
    said, meant = published()[name], msgspec.json.decode((VECTORS / f"{name}.json").read_bytes())
    for schemas in (said, meant):
        schemas["input_schema"], schemas["output_schema"] = (
            plain(schemas["input_schema"]),
            plain(schemas["output_schema"]),
        )
    assert said == meant
