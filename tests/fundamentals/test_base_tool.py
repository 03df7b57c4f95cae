"""A BaseTool: a tool with methods, as the hub's specification writes it."""

from typing import ClassVar

import pytest

from toolhall import BaseTool, ToolError, ToolRequest, ToolResponse
from toolhall.model.errors import NotFound
from toolhall.testing import Client


# As the specification has it, but for the import line.
class ExampleTool(BaseTool):
    def __init__(self) -> None:
        super().__init__("example-tool", "1.0.0")

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        try:
            if request.method == "method1":
                result = await self._handle_method1(request.params)
                return ToolResponse(result=result)
            raise ToolError("Unknown method")
        except Exception as e:  # noqa: BLE001 - as it is written there
            raise ToolError(str(e))  # noqa: B904

    async def _handle_method1(self, params: dict[str, object]) -> dict[str, object]:
        # Implementation
        return {"status": "success"}


class Diary(BaseTool):
    """Keeps what was told."""

    capabilities: ClassVar = {
        "methods": [
            {
                "name": "write",
                "description": "Write a line.",
                "params": {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]},
                "effect": "writes",
                "level": 3,
            },
            "read",
        ],
        "resources": [{"name": "lines", "type": "string", "description": "All lines."}],
    }

    def __init__(self) -> None:
        super().__init__("diary", "2.1.0")
        self.lines: list[object] = []

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        if request.method == "write":
            request.context.progress(1, 1, "written")
            self.lines.append(request.params["line"])
        return ToolResponse(result={"lines": self.lines})


async def test_specification_example_runs() -> None:
    async with Client(ExampleTool) as client:
        (tool,) = await client.list_tools()
        assert str(tool.id) == "example-tool.method1@1.0.0"
        assert (await client.call_named(tool.name, {"anything": 1})).encoded == b'{"status":"success"}'


async def test_undeclared_method_never_reaches_the_tool() -> None:
    async with Client(ExampleTool()) as client:
        with pytest.raises(NotFound):
            await client.call_named("example-tool_method2", {})


async def test_capabilities_are_published_and_validated() -> None:
    diary = Diary()
    async with Client(diary) as client:
        write, read = await client.list_tools()
        assert (write.description, write.effect, write.level) == ("Write a line.", "writes", 3)
        assert write.about.description == "Keeps what was told."
        assert write.about.resources == ({"name": "lines", "type": "string", "description": "All lines."},)
        assert read.input == {"type": "object", "properties": {}}
        with pytest.raises(Exception, match="line"):
            await client.call_named(write.name, {"line": 1})
        assert (await client.call_named(write.name, {"line": "a"})).encoded == b'{"lines":["a"]}'
    assert diary.lines == ["a"]
    assert [type(event).__name__ for event in client.events] == ["ProgressEvent"]
