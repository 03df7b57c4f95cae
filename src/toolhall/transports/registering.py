"""Definitions that come from outside, and the list of all there are, for the dialects that know both."""

from toolhall.dialects import exact
from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import documents_of
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId
from toolhall.registry.registry import Conflict
from toolhall.registry.shelf import Shelf
from toolhall.registry.snapshot import Snapshot


class Registering:
    """Keeps definitions on the shelf in every dialect that lists it; what is served comes first."""

    def __init__(self, hall: Hall, shelf: Shelf, catalog: Catalog) -> None:
        self._hall = hall
        self._shelf = shelf
        self._catalog = catalog
        self._served: tuple[Snapshot, list[JsonObject]] | None = None

    def register(self, definition: Json) -> ToolId:
        """Validate a definition and keep it; it is not active until something runs it. The id of its first tool."""
        tools = exact.read(definition, self._catalog)
        if not tools:
            raise Malformed("declare at least one thing that can be called")
        first = tools[0].id
        if any(entry.tool.id.toolkit == first.toolkit for entry in self._hall.registry.snapshot.entries):
            raise Malformed(f"{first.toolkit!r} is served already; register under another name")
        try:
            self._shelf.put(tools)
        except Conflict as conflict:
            raise Malformed(str(conflict)) from None
        return first

    def documents(self, caller: Caller) -> list[JsonObject]:
        """What this caller may see of what is served, then what is only registered."""
        return [
            *self._written(self._hall.view(caller)),
            *(exact.write(each, self._catalog) for each in self._shelf.toolkits),
        ]

    def _written(self, view: Snapshot) -> list[JsonObject]:
        """Written once for each snapshot."""
        if self._served is None or self._served[0] is not view:
            self._served = (view, documents_of(view.tools, self._catalog))
        return self._served[1]
