"""`search_tools`: the tool that finds tools, for clients that would otherwise be shown thousands."""

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.authoring.definition import Definition, definitions_of
from toolhall.authoring.toolkit import Toolkit
from toolhall.model.caller import Caller
from toolhall.model.json import JsonObject
from toolhall.model.names import SEARCH_TOOL
from toolhall.model.tool import Tool
from toolhall.registry.search import MAX_QUERY, Search
from toolhall.registry.snapshot import Snapshot

Sees: TypeAlias = Callable[[Caller, Tool], bool]


class FoundTool(msgspec.Struct, frozen=True, rename="camel"):
    """All that a model needs to call it."""

    name: str
    id: str
    title: str | None
    description: str | None
    input_schema: JsonObject


class FoundTools(msgspec.Struct, frozen=True):
    """Best first."""

    tools: list[FoundTool]


class Finder(Toolkit, name=SEARCH_TOOL.toolkit, version=SEARCH_TOOL.version, level=0):
    """Searches what its caller may see, and nothing else."""

    def __init__(self, tools: Callable[[], Snapshot], sees: Sees) -> None:
        """`tools` gives the snapshot of now, in which names mean what they mean in a call."""
        self._tools = tools
        self._sees = sees
        self._search = Search()

    # Not async: the first search after a change builds the index, and the hall answers others meanwhile.
    @tool(title="Search tools", effect="reads")
    def search_tools(
        self,
        ctx: Context,
        query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY, description="What the tool should do.")],
        limit: Annotated[int, Meta(ge=1, le=20, description="How many to show at most.")] = 5,
    ) -> FoundTools:
        """Find tools by what they do. Each tool found can be called by its name, although it is not listed."""

        def keep(found: Tool) -> bool:
            return found.id != SEARCH_TOOL and self._sees(ctx.caller, found)

        return FoundTools([_found(each) for each in self._search.find(self._tools(), query, limit, keep)])


def search_tool(tools: Callable[[], Snapshot], sees: Sees) -> Definition:
    """The tool over these tools; `sees` says which of them a caller may know of.

    It is registered like any other, and listed in every dialect: it is of use there too, and a list that left out what
    can be called would be wrong.
    """
    (definition,) = definitions_of(Finder(tools, sees))
    return msgspec.structs.replace(definition, tool=msgspec.structs.replace(definition.tool, name=SEARCH_TOOL.tool))


def _found(found: Tool) -> FoundTool:
    return FoundTool(found.name, str(found.id), found.title, found.description, found.input)
