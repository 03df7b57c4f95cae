"""MCP definitions of tools, resources, templates and prompts: McpCatalog reads and writes them in each revision."""

from toolhall.dialects.mcp.catalog import read_tool, write_tool
from toolhall.dialects.mcp.prompts import read_prompt, write_prompt
from toolhall.dialects.mcp.protocol import Revision
from toolhall.dialects.mcp.resources import read_resource, write_resource
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Kind, Tool

_PROMPT_MEMBERS = frozenset({"name", "title", "description", "arguments", "icons", "_meta"})


class McpCatalog:
    """MCP definitions of one revision; a document is one definition of any kind."""

    grouped = False
    loss_record_path: tuple[str, ...] = ("_meta", "dev.toolhall/carrier")

    def __init__(self, revision: Revision) -> None:
        self.name = f"mcp@{revision.name}"
        self._revision = revision

    def tools_path(self, document: JsonObject) -> tuple[str, ...]:  # noqa: ARG002 - the same in every document
        """Empty: a document is one definition."""
        return ()

    def read(self, document: Json) -> tuple[Tool, ...]:
        """Read the definition of a document; raises BadDocument with every finding."""
        return (read_definition(document),)

    def write(self, tools: tuple[Tool, ...]) -> JsonObject:
        """Write one definition."""
        (tool,) = tools
        return write_definition(tool, self._revision)


def read_definition(document: Json) -> Tool:
    """Read one definition of any kind; raises BadDocument with every finding."""
    match definition_kind(document):
        case "resource":
            return read_resource(document)
        case "prompt":
            return read_prompt(document)
        case "tool":
            return read_tool(document)


def write_definition(tool: Tool, revision: Revision) -> JsonObject:
    """Write one definition of any kind for this revision."""
    match tool.kind:
        case "resource":
            return write_resource(tool, revision)
        case "prompt":
            return write_prompt(tool, revision)
        case "tool":
            return write_tool(tool, revision)


def definition_kind(document: Json) -> Kind:
    """The kind of a definition by its members: only a tool has, and must have, an input schema.

    What has no member of another kind is a prompt, because it could not be a tool.
    """
    if not isinstance(document, dict) or "inputSchema" in document:
        return "tool"
    if "uri" in document or "uriTemplate" in document:
        return "resource"
    is_prompt = "arguments" in document or ("name" in document and _PROMPT_MEMBERS.issuperset(document))
    return "prompt" if is_prompt else "tool"
