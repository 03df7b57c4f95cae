"""What is left of a text without a secret: the same here as in the TypeScript SDK."""

import json
from pathlib import Path

import pytest

from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret
from toolhall.redaction.redactor import Redactor

VECTORS = Path(__file__).parents[2] / "vectors" / "hub" / "toolserver" / "redacting.json"


@pytest.mark.parametrize(
    "vector", [pytest.param(each, id=each["name"]) for each in json.loads(VECTORS.read_text("utf-8"))]
)
def test_redactor_output_equals_the_shared_vector(vector: JsonObject) -> None:
    assert Redactor((Secret(vector["secret"]),)).redact_text(vector["text"]) == vector["left"]
