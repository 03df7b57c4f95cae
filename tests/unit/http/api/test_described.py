"""What `/openapi.json` says of management is true, and only those are told who may manage."""

from collections.abc import AsyncIterator
from typing import Any, get_args

import jsonschema_rs
import pytest

from tests.harness.asgi_client import FORWARDED
from tests.unit.http.api.management_client import PICK, Reply, activated, definition, manage, place, registered
from toolhall import Toolhall
from toolhall.dialects.openapi import paths as management
from toolhall.examples.calculator import Calculator
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool
from toolhall.stores.tools import ToolEventKind, ToolOrigin, ToolState


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    """A toolkit from code, and a tool of two versions from outside."""
    with Toolhall(Calculator) as hall:
        await hall.open()
        await registered(hall, definition(description="Pick\u202e one.", title="Pick"), definition(version="1.1.0"))
        yield hall


async def described(hall: Toolhall, headers: dict[str, str] | None = None) -> Any:
    return (await manage(hall, "GET", "/openapi.json", None, headers)).body


def check(document: Any, path: str, method: str, reply: Reply) -> None:
    """The reply is one that the description has, and looks as it says."""
    said = document["paths"][path][method]["responses"][str(reply.status)]
    if "$ref" in said:
        said = document["components"]["responses"][said["$ref"].rpartition("/")[2]]
    schema = {**said["content"]["application/json"]["schema"], "components": document["components"]}
    jsonschema_rs.validator_for(schema, validate_formats=True).validate(reply.body)


async def test_openapi_describes_management_to_admins(hall: Toolhall) -> None:
    document = await described(hall)
    assert management.MANAGEMENT_TAG in document["tags"]
    operations = [each for path in document["paths"].values() for each in path.values()]
    managing = [each for each in operations if each["tags"] == ["management"]]
    assert len(managing) == sum(map(len, management.management_paths([]).values()))
    assert len({each["operationId"] for each in operations}) == len(operations)
    strange = await described(hall, FORWARDED)
    assert not [path for path in strange["paths"] if path.startswith("/api")]
    assert await described(hall) == document, "what one caller is told is not remembered for another"


def test_openapi_enums_match_store() -> None:
    assert set(get_args(ToolState)) == set(management.STATES)
    assert set(get_args(ToolOrigin)) == set(management.ORIGINS)
    assert set(get_args(ToolEventKind)) == set(management.EVENT_TYPES)


async def test_tool_responses_match_openapi(hall: Toolhall) -> None:
    document = await described(hall)
    await activated(hall, PICK)
    await activated(hall, "Kit.pick@1.1.0")
    await hall.dispatcher.answer(CallTool("Calculator_Add", {"a": 1, "b": 2}, "test"), LOCAL)
    ending = {"sunset": "2099-01-31", "successor": "Kit.pick@1.1.0"}
    for method, path, tool_id, body in (
        ("get", "/api/tools", "", None),
        ("post", "/api/tools", "", definition("other")),
        ("post", "/api/tools", "", definition("other")),  # a conflict
        ("post", "/api/tools", "", {"x": 1}),
        ("get", "/api/tools/{id}", "Calculator.Add", None),
        ("get", "/api/tools/{id}", PICK, None),
        ("get", "/api/tools/{id}", "No.such", None),
        ("post", "/api/tools/{id}/deprecate", PICK, ending),
        ("get", "/api/tools/{id}/callers", "Calculator.Add", None),
        ("post", "/api/tools/{id}/rollback", "Kit.pick", {}),
        ("post", "/api/tools/{id}/deactivate", PICK, None),
        ("post", "/api/tools/{id}/activate", PICK, {}),
        ("delete", "/api/tools/{id}", PICK, None),
        ("get", "/api/tools/{id}/history", PICK, None),
        ("get", "/api/history", "", None),
    ):
        target = path.replace("/api/tools/{id}", place(tool_id)) if tool_id else path
        check(document, path, method, await manage(hall, method.upper(), target, body))


async def test_access_responses_match_openapi(hall: Toolhall) -> None:
    document = await described(hall)
    grant = {"callers": "ci", "tools": "Kit.*", "conditions": [{"path": "/a", "equals": None}]}
    for path, good, bad in (("/api/keys", {"name": "ci"}, {"name": "local"}), ("/api/grants", grant, {"tools": "x"})):
        made = await manage(hall, "POST", path, good)
        check(document, path, "post", made)
        for method, target, body in (
            ("post", path, bad),
            ("get", path, None),
            ("delete", f"{path}/{made.body['id']}", None),
            ("delete", f"{path}/{made.body['id']}x", None),
        ):
            described_as = next(
                each for each in document["paths"] if method in document["paths"][each] and each.startswith(path)
            )
            check(document, described_as, method, await manage(hall, method.upper(), target, body))


async def test_request_bodies_match_openapi(hall: Toolhall) -> None:
    """What the description allows is understood, and what it forbids is refused."""
    paths = (await described(hall))["paths"]
    for action, good, bad in (
        ("activate", {"seen": "sha256-" + "a" * 64}, {"seen": "a"}),
        ("activate", {"seen": None}, {"sen": None}),
        ("deprecate", {"sunset": "2099-12-31", "successor": None}, {"sunset": "2099-13-31"}),
        ("deprecate", {}, {"successor": "x" * 257}),
        ("deactivate", {}, {"a": 1}),
        ("rollback", {}, {"a": 1}),
    ):
        schema = paths[f"/api/tools/{{id}}/{action}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        judge = jsonschema_rs.validator_for(schema, validate_formats=True)
        assert (judge.is_valid(good), judge.is_valid(bad)) == (True, False)
        assert (await manage(hall, "POST", place("Kit.pick", action), good)).status in (200, 409)
        assert (await manage(hall, "POST", place("Kit.pick", action), bad)).status == 400
    example = paths["/api/tools"]["post"]["requestBody"]["content"]["application/json"]["example"]
    reply = await manage(hall, "POST", "/api/tools", example)
    assert (reply.status, reply.body["findings"]) == (201, [])
