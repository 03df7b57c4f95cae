"""ResourcesToolkit: the tools `Resources.list` and `Resources.read`, for clients that know only tools."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import Toolkit, tool
from toolhall.authoring.definition import Definition, definitions_of
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolFailed
from toolhall.model.names import READ_TOOL, published_name
from toolhall.model.tool import Output, Tool
from toolhall.model.uri_expansion import MAX_URI_LENGTH
from toolhall.registry.snapshot import Snapshot

_NOT_A_READ = (
    "a person would have to agree to every read by this tool, whatever it reads: set its level below 8 here, and those"
    " of the resources instead"
)


class FoundResource(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A resource, or a URI template with the name of the tool that reads it by its variables."""

    name: str
    uri: str | None = None
    uri_template: str | None = None
    tool: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class FoundResources(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One page, in the order of registration."""

    resources: list[FoundResource]
    next_cursor: str | None = None


class ResourcesToolkit(Toolkit, name=READ_TOOL.toolkit, version=READ_TOOL.version, level=0):
    """Lists and reads what its caller may read, and nothing else."""

    def __init__(self, visible: Callable[[Caller], Snapshot], refresh: Callable[[], Awaitable[None]]) -> None:
        self._visible = visible
        self._refresh = refresh

    @tool(name="list", title="List resources", effect="reads")
    async def list_resources(
        self,
        ctx: Context,
        cursor: Annotated[str | None, Meta(description="The `nextCursor` of the page before.")] = None,
    ) -> FoundResources:
        """List resources and URI templates. Each URI can be read with `Resources_read`."""
        if cursor is None:
            await self._refresh()
        page = self._visible(ctx.caller).resources.all_pages.page(cursor)
        return FoundResources([_describe(each) for each in page.tools], page.next_cursor)

    @tool(name="read", title="Read a resource", effect="reads")
    async def read_resource(
        self,
        uri: Annotated[str, Meta(min_length=1, max_length=MAX_URI_LENGTH, description="The URI to read.")],  # noqa: ARG002
    ) -> Any:
        """Read a resource by its URI, also by one that a URI template has."""
        raise ToolFailed(_NOT_A_READ)


def resource_tools(visible: Callable[[Caller], Snapshot], refresh: Callable[[], Awaitable[None]]) -> list[Definition]:
    """Return the definitions of the tools that list and read resources.

    `visible` is what a caller may see; `refresh` looks at the files of folders again.
    """
    listing, reading = definitions_of(ResourcesToolkit(visible, refresh))
    # What is read is of any form: no schema is stated, so that no client expects a value beside texts and pictures.
    return [listing, msgspec.structs.replace(reading, tool=msgspec.structs.replace(reading.tool, output=Output()))]


def _describe(found: Tool) -> FoundResource:
    info = found.resource
    if info is None:
        raise TypeError(f"{found.id} is no resource")
    named: Mapping[str, str] = {"uri": info.uri}
    if info.is_template:
        named = {"uri_template": info.uri, "tool": published_name(found.id.toolkit, found.id.tool)}
    return FoundResource(
        found.name, title=found.title, description=found.description, mime_type=info.mime_type, **named
    )
