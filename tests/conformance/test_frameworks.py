"""Agent frameworks as clients list and call tools of every shape: `make clients` installs them and runs this file.

Where they are not installed, as in `make test`, the tests below that need no package show what they read in a schema.
"""

import json
import subprocess
from collections.abc import Generator
from typing import Any, Literal, Union

import pydantic
import pytest

from tests.conformance.serving import HERE, served
from tests.conformance.shapes import Shapes
from tests.harness.patience import patience
from tests.harness.server_process import ROOT, ServerProcess
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28
from toolhall.model.json import encode
from toolhall.testing import Client

FRAMEWORKS = {
    "autogen": ".venv-frameworks1",
    "langchain": ".venv-frameworks1",
    "smolagents": ".venv-frameworks1",
    "llama-index": ".venv-frameworks2",
    "pydantic-ai": ".venv-frameworks2",
}
PLACE = {"name": "here", "at": {"x": 31, "y": 41}, "corners": [{"x": 59, "y": 26}, {"x": 53, "y": 58}]}
# A tool, its arguments, and what must be in the answer, however a framework writes it.
CALLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "Shapes_pair": ({"pair": [1, "a"], "more": [1, 2, 3]}, ["pair 2 a 3"]),
    "Shapes_returned": ({"number": 17}, ["17", "returned"]),
    "Shapes_union": ({"value": [1, 2]}, ["union list"]),
    "Shapes_nested": ({"place": PLACE}, ["here", "31", "26", "53"]),
    "Shapes_choice": ({"unit": "m"}, ["choice METRE FOOT"]),
    "Shapes_nothing": ({}, ["nothing taken"]),
}


def installed(framework: str) -> pytest.MarkDecorator:
    """Skips what needs a framework that is not there."""
    missing = not (ROOT / FRAMEWORKS[framework] / ".done").exists()
    return pytest.mark.skipif(missing, reason="'make clients' installs the agent frameworks")


@pytest.fixture(scope="module")
def server() -> Generator[ServerProcess]:
    with served("shapes.py") as running:
        yield running


@pytest.mark.parametrize("framework", [pytest.param(name, marks=installed(name)) for name in FRAMEWORKS])
def test_framework_lists_and_calls_tools_of_every_parameter_shape(framework: str, server: ServerProcess) -> None:
    given = json.dumps({name: arguments for name, (arguments, _) in CALLS.items()})
    command = [
        str(ROOT / FRAMEWORKS[framework] / "bin/python"),
        str(HERE / "clients/frameworks.py"),
        framework,
        server.mcp,
        given,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * patience(), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert results.keys() == CALLS.keys()
    for name, (_, wanted) in CALLS.items():
        assert all(part in results[name] for part in wanted), f"{name}: {results[name]}"


@pytest.fixture
async def schemas() -> dict[str, dict[str, Any]]:
    """The input schemas that `tools/list` shows, by tool."""
    async with Client(Shapes) as client:
        written = [write_tool(tool, REVISION_2026_07_28) for tool in await client.list_tools()]
    assert {each["name"] for each in written} == CALLS.keys()
    return {each["name"]: json.loads(encode(each["inputSchema"])) for each in written}


def parameters(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters as mcpadapt, below smolagents and CrewAI, takes them: without asking whether there are any."""
    return {name: {"type": "any", **part} for name, part in schema["properties"].items()}


def model_of(schema: dict[str, Any]) -> type[pydantic.BaseModel]:
    """A class, as LlamaIndex and AutoGen make one: by looking into each part as into an object."""
    fields: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        needed = name in schema.get("required", [])
        fields[name] = (type_of(part), ...) if needed else (type_of(part), part.get("default"))
    return pydantic.create_model("Arguments", **fields)


def type_of(part: dict[str, Any]) -> Any:
    """The type of a part; who knows no tuples reads `items` only, and takes anything where there are none."""
    if "$ref" in part or "const" in part:
        return Any
    if "enum" in part:
        return Literal[tuple(part["enum"])]
    if "anyOf" in part:
        return Union[tuple(type_of(choice) for choice in part["anyOf"])]  # noqa: UP007 - built at run time
    match part.get("type"):
        case "array":
            return list[type_of(part["items"])] if "items" in part else list[Any]  # type: ignore[misc]
        case "object":
            return model_of(part) if part.get("properties") else dict[str, Any]
        case kind:
            return {"integer": int, "string": str, "number": float, "boolean": bool, "null": None}.get(str(kind), Any)


async def test_input_schemas_are_readable_by_clients_that_do_not_check_for_keywords(
    schemas: dict[str, dict[str, Any]],
) -> None:
    assert parameters(schemas["Shapes_nothing"]) == {}
    for name, (given, _) in CALLS.items():
        assert parameters(schemas[name]).keys() >= given.keys()
        model_of(schemas[name]).model_validate(given)


async def test_input_schema_with_boolean_items_is_not_readable_by_such_clients(
    schemas: dict[str, dict[str, Any]],
) -> None:
    """Proves that the readers of the test above are as strict as those clients."""
    schema = schemas["Shapes_pair"]
    schema["properties"]["pair"]["items"] = False
    with pytest.raises(TypeError, match="bool"):
        model_of(schema)
