"""The REST interface as an OpenAPI 3.1 document."""

import re
from collections.abc import Iterator

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.tables import each_row
from tests.unit.dialects.model_apis.api_checks import accepts, check_losses
from tests.unit.dialects.model_apis.sample_tools import FORECAST, MOVE, NOTHING, SAMPLES, TREE, corpora, tool
from tests.unit.schema.random_schemas import fitting, roots
from toolhall.dialects.base import Loss
from toolhall.dialects.openapi import catalog
from toolhall.dialects.openapi.catalog import OpenApiInfo
from toolhall.dialects.openapi.errors import TABLE
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId
from toolhall.model.tool import Output, Tool, ToolkitInfo

STATUSES = ["200", "400", "401", "403", "404", "409", "410", "413", "415", "422", "429", "500", "503", "504"]


def document_of(*tools: Tool) -> JsonObject:
    (document,) = catalog.write(tools).documents
    return document


def judge(document: JsonObject, component: str) -> jsonschema_rs.Draft202012Validator:
    return accepts({"$ref": f"#/components/schemas/{component}", "components": document["components"]})


def references(part: Json) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def check(document: JsonObject) -> None:
    """What OpenAPI 3.1 asks of every document like ours."""
    assert document["openapi"].startswith("3.1.")
    assert {"title", "version"} <= document["info"].keys()
    operations = [item["post"] for item in document["paths"].values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    listed = [tag["name"] for tag in document["tags"]]
    assert len(set(listed)) == len(listed)
    for path, operation in zip(document["paths"], operations, strict=True):
        assert re.fullmatch(r"/tools/[^/{}?# ]+/[^/{}?# ]+", path)
        assert set(operation["tags"]) <= set(listed)
        assert list(operation["responses"]) == STATUSES
    for name, schema in document["components"]["schemas"].items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        jsonschema_rs.meta.validate(schema)
    for reference in set(references(document)):
        found: Json = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]


def test_openapi_operation() -> None:
    document = document_of(FORECAST)
    operation = document["paths"]["/tools/Weather/forecast"]["post"]
    assert {key: operation[key] for key in ("operationId", "tags", "summary", "description", "requestBody")} == {
        "operationId": "Weather_forecast",
        "tags": ["Weather"],
        "summary": "Forecast",
        "description": "Forecast the weather for a city.",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Weather_forecast.input"}}},
        },
    }
    assert document["tags"] == [{"name": "Weather", "description": "Weather of the world."}]
    assert document["components"]["schemas"]["Weather_forecast.input"] == FORECAST.input
    assert document["components"]["schemas"]["Weather_forecast.output"] == {"type": "object"}


@pytest.mark.parametrize(
    ("output", "schema"),
    [
        (Output(), {}),
        (Output("none"), {"type": "null"}),
        (Output("schema", {}), {"$ref": "#/components/schemas/t.output"}),
    ],
)
def test_openapi_response_is_bare_value(output: Output, schema: JsonObject) -> None:
    of = Tool(id=ToolId("K", "t", "0.1.0"), name="t", input={}, output=output)
    answer = document_of(of)["paths"]["/tools/K/t"]["post"]["responses"]["200"]
    assert answer == {"description": "The result.", "content": {"application/json": {"schema": schema}}}


def test_openapi_errors_have_code_and_message() -> None:
    document = document_of(NOTHING)
    error = judge(document, "Error")
    assert error.is_valid({"error": {"code": "not_found", "message": "unknown tool"}})
    assert error.is_valid({"error": {"code": "x", "message": "y", "details": {"retry_after": 3}}})
    assert not error.is_valid({"error": {"code": "x"}})
    assert not error.is_valid({"error": "x"})
    for status, answer in document["paths"]["/tools/System/get_timestamp"]["post"]["responses"].items():
        if status != "200":
            named = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
            assert named["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_openapi_describes_every_error() -> None:
    before_any_tool = {"200", "413", "415"}
    assert {str(status) for status, _ in TABLE.values()} | before_any_tool == set(STATUSES)
    described = document_of(NOTHING)["components"]["responses"]
    assert "Retry-After" in described["Limited"]["headers"]
    assert "WWW-Authenticate" in described["Unauthenticated"]["headers"]


@each_row(
    ("schema", "needed"),
    [
        ({"type": "object"}, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, True),
        ({"type": "object", "required": []}, False),
        ({"type": "object", "minProperties": 1}, True),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, True),
        ({"anyOf": [{"required": ["a"]}, {}]}, False),
        ({"type": "object", "$ref": "https://example.com"}, True),
    ],
)
def test_openapi_body_required_with_required_arguments(schema: JsonObject, needed: bool) -> None:
    operation = document_of(tool(schema))["paths"]["/tools/K/t"]["post"]
    assert operation["requestBody"]["required"] is needed


def test_openapi_info_and_servers() -> None:
    info = OpenApiInfo(title="Mine", version="2.0.0", description="My tools.", servers=("https://example.com",))
    (document,) = catalog.write((), info).documents
    assert document["info"] == {"title": "Mine", "version": "2.0.0", "description": "My tools."}
    assert document["servers"] == [{"url": "https://example.com"}]
    assert document["paths"] == {}
    check(document)


def test_openapi_recursion_refers_to_component() -> None:
    document = document_of(TREE)
    schema = document["components"]["schemas"]["plant.input"]
    branches = schema["properties"]["tree"]["properties"]["branches"]
    assert branches["items"] == {"$ref": "#/components/schemas/plant.input/$defs/Tree"}
    leaf = {"name": "a", "branches": []}
    assert judge(document, "plant.input").is_valid({"tree": {"name": "a", "branches": [leaf]}})
    assert not judge(document, "plant.input").is_valid({"tree": {"name": "a", "branches": [{"name": "A"}]}})


def test_openapi_inexpressible_members_are_losses() -> None:
    assert [loss.path for loss in catalog.write((FORECAST,)).losses] == [
        "/annotations", "/icons", "/level", "/requirements", "/_meta", "/tags",
    ]  # fmt: skip
    about = ToolkitInfo(title="T", description="D", metadata={})
    of = Tool(id=ToolId("K", "t", "2.0.0"), name="t", input={}, about=about)
    assert [loss.path for loss in catalog.write((of,)).losses] == ["/toolkit/title", "/toolkit/metadata"]


def test_openapi_first_version_has_the_path() -> None:
    versions = tuple(Tool(id=ToolId("K", "t", v), name="K_t", description=v, input={}) for v in ("2.0.0", "1.0.0"))
    written = catalog.write(versions)
    check(written.documents[0])
    assert written.documents[0]["paths"]["/tools/K/t"]["post"]["description"] == "2.0.0"
    assert written.losses == [Loss("/1", "another version of this tool has its path; call this one by its version")]


def test_openapi_odd_names_have_unique_paths() -> None:
    odd = ("a/b", "ü", "{x}", "a b", "a?b", "a_b", "Error", "A.input")
    tools = tuple(Tool(id=ToolId(f"K{name}", name, "0.1.0"), name=name, input={}) for name in odd)
    document = document_of(*tools)
    check(document)
    assert len(document["paths"]) == len(odd)
    assert len(document["components"]["schemas"]) == len(odd) + 1


def test_openapi_accepts_samples() -> None:
    document = document_of(*SAMPLES)
    check(document)
    for of in SAMPLES:
        judge(document, f"{of.name}.input")
    assert document["components"]["schemas"]["Files_move.input"] == MOVE.input


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), roots())
def test_openapi_schema_accepts_exactly_what_the_original_does(data: st.DataObject, schema: JsonObject) -> None:
    document = document_of(tool(schema))
    before, after = accepts(schema), judge(document, "t.input")
    for _ in range(3):
        value = fitting(data.draw, schema, schema)
        assert after.is_valid(value) is before.is_valid(value)


def test_openapi_accepts_corpora() -> None:
    tools = corpora() or pytest.skip("no corpora here")
    check(document_of(*tools))
    for of in tools:
        check_losses(of, catalog.write((of,)).losses)
