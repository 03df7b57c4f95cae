"""What a BaseTool may state and answer, and what is said where it is wrong."""

import types
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import pytest

from tests.harness.asgi_client import send, send_json
from toolhall import Reply, Text, Toolhall
from toolhall.authoring.base_tool import BaseTool, ToolRequest, ToolResponse, response_result
from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import definitions_of
from toolhall.model.caller import LOCAL
from toolhall.model.errors import ToolError, ToolFailed
from toolhall.testing import Client


class Plain(BaseTool):
    """Answers with what it was asked."""

    def __init__(self, name: str = "plain", version: str = "1.0.0", capabilities: Any = None) -> None:
        super().__init__(name, version)
        vars(self)["capabilities"] = capabilities

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        return ToolResponse({"method": request.method, "params": request.params, "tool": request.tool})

    async def _handle_second(self, params: dict[str, Any]) -> None:
        """The second."""

    async def _handle_first(self, params: dict[str, Any]) -> None: ...

    def _handle_sync(self) -> None: ...


def names(tool: object) -> list[str]:
    return [definition.tool.id.tool for definition in definitions_of(tool)]


def test_methods_are_found_by_handler_coroutines() -> None:
    second, first = definitions_of(Plain())
    assert (str(second.tool.id), second.tool.description) == ("plain.second@1.0.0", "The second.")
    assert (str(first.tool.id), first.tool.description) == ("plain.first@1.0.0", None)
    assert second.tool.about.resources is None


def test_methods_may_be_names_or_objects() -> None:
    stated = {"methods": ["second", {"name": "third", "title": "Three", "timeout": 2, "secrets": ["A_KEY"]}]}
    second, third = definitions_of(Plain(capabilities=stated))
    assert second.tool.description == "The second."
    assert (third.tool.title, third.tool.timeout) == ("Three", 2)
    assert third.tool.requirements == {"secrets": [{"id": "A_KEY"}]}
    assert second.tool.input == third.tool.input == {"type": "object", "properties": {}}


def test_resources_may_be_names_or_objects() -> None:
    stated = {"methods": ["a"], "resources": ["one", {"name": "two", "type": "string"}]}
    (only,) = definitions_of(Plain(capabilities=stated))
    assert only.tool.about.resources == ({"name": "one"}, {"name": "two", "type": "string"})


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({"methods": []}, "it declares no methods: set capabilities"),
        ({"methods": ["a", {"name": "a"}]}, "lists the method 'a' twice"),
        ({"methods": [{"description": "x"}]}, "has no name"),
        ({"methods": [3]}, "neither a name nor an object"),
        ({"methods": "a"}, "is not a list"),
        ({"methods": ["a b"]}, "'a b' is not a name"),
        ({"methods": [{"name": "a", "params": {"type": "string"}}]}, "method 'a': input is .* use a JSON Schema"),
        ({"methods": [{"name": "a", "level": 11}]}, "method 'a': level is 11"),
        ({"methods": [{"name": "a", "isolated": True}]}, "has no option 'isolated'; it takes name, params"),
        ({"methods": ["a"], "resources": [1]}, "a resource that is neither"),
        ("a", "capabilities is not a dict"),
    ],
)
def test_invalid_capabilities_are_refused_with_the_fix(stated: Any, problem: str) -> None:
    with pytest.raises(BadDeclaration, match=rf"test_base_tool.*tool 'Plain': .*{problem}"):
        list(definitions_of(Plain(capabilities=stated)))


@pytest.mark.parametrize(
    ("name", "version", "problem"),
    [("a b", "1.0.0", "is not a name"), ("a", "1", "is not a semantic version"), ("a", None, "no version")],
)
def test_invalid_name_or_version_is_refused(name: Any, version: Any, problem: str) -> None:
    with pytest.raises(BadDeclaration, match=problem):
        list(definitions_of(Plain(name, version)))


def test_missing_handle_request_is_refused() -> None:
    with pytest.raises(BadDeclaration, match="write 'async def handle_request"):
        list(definitions_of(BaseTool("a", "1.0.0")))


def module_of(source: str) -> types.ModuleType:
    module = types.ModuleType("made")
    exec(compile("from toolhall import BaseTool, ToolResponse\n" + source, "made.py", "exec"), module.__dict__)
    return module


OWN = """
class Own(BaseTool):
  async def handle_request(self, request): return ToolResponse()
  async def _handle_a(self, params): ...
class Mine(Own):
  def __init__(self): super().__init__("mine", "1.0.0")
"""


def test_module_serves_tools_without_their_base_classes() -> None:
    assert [str(each.tool.id) for each in definitions_of(module_of(OWN))] == ["mine.a@1.0.0"]


def test_instance_replaces_its_class() -> None:
    assert [str(each.tool.id) for each in definitions_of(module_of(OWN + "mine = Mine()\n"))] == ["mine.a@1.0.0"]


def test_class_with_constructor_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match="name"):
        list(definitions_of(module_of(OWN.partition("class Mine")[0])))


@pytest.mark.parametrize(
    ("answered", "value"),
    [
        (ToolResponse(result={"a": 1}), {"a": 1}),
        (ToolResponse(result=3), 3),
        (ToolResponse(), None),
        ({"result": {"a": 1}}, {"a": 1}),
        ({"type": "tool_response", "id": "1", "result": {"a": 1}, "error": None}, {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ({"result": 1, "more": 2}, {"result": 1, "more": 2}),
        ("text", "text"),
        (None, None),
    ],
)
def test_response_result_of_every_form(answered: object, value: object) -> None:
    assert response_result(answered) == value


@pytest.mark.parametrize(
    ("answered", "message", "code", "details"),
    [
        (
            ToolResponse(error={"code": "FULL", "message": "no room", "details": {"left": 0}}),
            "no room",
            "FULL",
            {"left": 0},
        ),
        (ToolResponse(error="no room"), "no room", "TOOL_ERROR", {}),
        (ToolResponse(error={"message": 3}), "the tool failed", "TOOL_ERROR", {}),
        (ToolResponse(error=ToolError("no room", code="FULL")), "no room", "FULL", {}),
        ({"error": {"code": "FULL", "message": "no room"}}, "no room", "FULL", {}),
        ({"type": "tool_error", "code": "FULL", "message": "no room"}, "no room", "FULL", {}),
    ],
)
def test_response_result_raises_errors(answered: object, message: str, code: str, details: Any) -> None:
    with pytest.raises(ToolError) as raised:
        response_result(answered)
    assert (raised.value.message, raised.value.code, raised.value.details) == (message, code, details)


def test_response_result_raises_tool_failed_unchanged() -> None:
    failed = ToolFailed("later", retry_after=3)
    with pytest.raises(ToolFailed) as raised:
        response_result(ToolResponse(error=failed))
    assert raised.value is failed


async def test_request_has_tool_method_and_params() -> None:
    async with Client(Plain()) as client:
        result = await client.call_named("plain_first", {"context": 1, "self": 2, "a b": 3})
    assert result.encoded == b'{"method":"first","params":{"context":1,"self":2,"a b":3},"tool":"plain"}'


async def test_requests_have_unique_ids() -> None:
    seen: list[Any] = []

    class Noting(Plain):
        async def handle_request(self, request: ToolRequest) -> ToolResponse:
            seen.append(request.id)
            return ToolResponse()

    async with Client(Noting()) as client:
        await client.call_named("plain_first", {})
        await client.call_named("plain_first", {})
    assert len(set(seen)) == 2
    assert all(seen)


async def test_sync_handler_runs_in_a_thread() -> None:
    class Sync(Plain):
        def handle_request(self, request: ToolRequest) -> ToolResponse:  # type: ignore[override]
            return ToolResponse({"sync": True})

    (definition, _) = definitions_of(Sync())
    assert not definition.body.is_async
    async with Client(Sync()) as client:
        assert (await client.call_named("plain_first", {})).encoded == b'{"sync":true}'


async def test_unexpected_exception_text_is_not_sent() -> None:
    class Failing(Plain):
        async def handle_request(self, request: ToolRequest) -> ToolResponse:
            raise ToolError("no room") if request.method == "first" else RuntimeError("canary")

    async with Client(Failing()) as client:
        with pytest.raises(ToolFailed, match="no room"):
            await client.call_named("plain_first", {})
        with pytest.raises(ToolFailed) as raised:
            await client.call_named("plain_second", {})
    assert "canary" not in raised.value.message


def test_definition_has_the_health_check() -> None:
    tool = Plain()
    assert [definition.health_check for definition in definitions_of(tool)] == [tool.health_check] * 2


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ({"status": "success"}, {"status": "success"}),
        ({}, {}),
        (None, {}),
        ("text", {"result": "text"}),
        ([1, 2], {"result": [1, 2]}),
        (Reply((Text("seen"),)), {}),
        (Text("seen"), {}),
        (Reply((), 5), {"result": 5}),
    ],
)
async def test_results_are_objects_for_the_hub(given: Any, answered: Any) -> None:
    """What is one is not wrapped once more."""

    class Given(BaseTool):
        def __init__(self) -> None:
            super().__init__("given", "1.0.0")

        async def handle_request(self, request: ToolRequest) -> ToolResponse:
            return ToolResponse(result=given)

        async def _handle_it(self) -> None: ...

    message = b'{"type":"tool_request","id":"1","tool":"given","method":"it","params":{}}'
    with Toolhall(Given) as hall:
        reply = msgspec.json.decode((await hall.hub.answer(message, LOCAL)).body)
    assert (reply["result"], reply["error"]) == (answered, None)


class Notes(BaseTool):
    """Resources that can be read."""

    capabilities: ClassVar[Mapping[str, Any] | None] = {
        "methods": ["count", {"name": "read_resource", "level": 3, "secrets": ["NOTES_KEY"]}],
        "resources": [
            {"name": "notes://today", "type": "text/plain", "description": "What to do."},
            {"name": "notes://tomorrow", "type": "string"},
            "notes://gone",
            "everything",
            {"name": "notes://{day}"},
        ],
    }

    def __init__(self) -> None:
        super().__init__("notes", "1.0.0")

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        if request.method == "count":
            return ToolResponse(result={"count": 2})
        found = {"notes://today": "Rest.", "notes://tomorrow": {"tasks": ["Work."]}}.get(request.params["uri"])
        return ToolResponse(result=found)


def test_resources_with_uris_are_read_by_the_method_read_resource() -> None:
    *methods, today, tomorrow, gone = definitions_of(Notes())
    assert [each.tool.id.tool for each in methods] == ["count", "read_resource"]
    assert (str(today.tool.id), today.tool.kind, today.tool.level) == ("notes.notes_today@1.0.0", "resource", 3)
    assert today.tool.requirements == {"secrets": [{"id": "NOTES_KEY"}]}
    infos = [each.tool.resource for each in (today, tomorrow, gone)]
    assert [(info.uri, info.mime_type) for info in infos if info] == [
        ("notes://today", "text/plain"),
        ("notes://tomorrow", None),
        ("notes://gone", None),
    ]
    assert today.tool.description == "What to do."


async def test_resources_of_a_base_tool_are_served() -> None:
    notes = Notes()
    methods = ["count", "read_resource"]  # without the secret
    vars(notes)["capabilities"] = {**(Notes.capabilities or {}), "methods": methods}
    with Toolhall(notes) as hall:
        reads = [await send(hall, "GET", f"/resources/read?uri=notes://{day}") for day in ("today", "tomorrow", "gone")]
        assert [each.status for each in reads] == [200, 200, 404]
        assert (reads[0].body, reads[1].json) == (b"Rest.", {"tasks": ["Work."]})
        asked = {"type": "request", "id": "1", "method": "get_tool", "params": {"name": "notes"}}
        _, reply = await send_json(hall, "/hub", "POST", asked)
        capabilities = reply["result"]["tool"]["capabilities"]
        assert [each["name"] for each in capabilities["methods"]] == ["count", "read_resource"]
        assert [each["name"] for each in capabilities["resources"]] == [
            "notes://today", "notes://tomorrow", "notes://gone", "everything", "notes://{day}",
        ]  # fmt: skip


def test_resources_whose_uris_make_one_name_are_refused() -> None:
    stated = {"methods": ["read_resource"], "resources": ["notes://a/b", "notes://a-b"]}
    with pytest.raises(BadDeclaration, match=r"'notes://a-b' has the same name as 'notes://a/b'"):
        list(definitions_of(Plain(capabilities=stated)))


def test_resources_without_the_method_are_only_told() -> None:
    stated = {"methods": ["count"], "resources": ["notes://today"]}
    (only,) = definitions_of(Plain(capabilities=stated))
    assert (only.tool.kind, only.tool.about.resources) == ("tool", ({"name": "notes://today"},))
