"""Where a source document says what a loss is about: pointers into the model become pointers into the document."""

import re

from toolhall.dialects.catalog import Catalog
from toolhall.dialects.mcp.definition import ID_KEY, LEVEL_KEY, TAGS_KEY
from toolhall.model.json import Json, JsonObject

# By dialect: how a member of the model is spelled in a tool's part of the document (`#` starts at the document's root).
_MCP = {
    "/level": f"/_meta/{LEVEL_KEY.replace('/', '~1')}",
    "/tags": f"/_meta/{TAGS_KEY.replace('/', '~1')}",
    "/version": f"/_meta/{ID_KEY.replace('/', '~1')}",
}
_SPELLED: dict[str, dict[str, str]] = {
    "machine": {
        "/inputSchema": "/parameters",
        "/outputSchema": "/return/schema",
        "/permissions": "/requiredPermissions",
        "/level": "#/securityLevel",
        "/version": "#/version",
        "/toolkit/title": "#/name",
        "/toolkit": "#",
    },
    "hub": {"/inputSchema": "/params", "/version": "#/tool/version", "/toolkit": "#/tool/capabilities"},
    "oxp": {"/inputSchema": "/input_schema/parameters", "/outputSchema": "/output_schema"},
    "function": {"/inputSchema": "/parameters"},
}


def located(path: str, document: JsonObject, source: Catalog, index: int) -> str:
    """A pointer into the document's tool at `index`, as far as it leads to something there."""
    spelled = _respelled(path, _SPELLED.get(source.name, _MCP))
    if spelled.startswith("#"):
        return _resolving(spelled[1:], document)
    place = source.place(document)
    prefix = "".join(f"/{key}" for key in (*place, index)) if place else ""
    return _resolving(prefix + spelled, document)


def _respelled(path: str, table: dict[str, str]) -> str:
    """The longest known beginning of a pointer replaced by the dialect's own."""
    end = len(path)
    while end > 0:
        known = table.get(path[:end])
        if known is not None:
            return known + path[end:]
        end = path.rfind("/", 0, end)
    return path


def _resolving(path: str, document: Json) -> str:
    """As much of a pointer as leads somewhere."""
    found = ""
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list) and re.fullmatch("[0-9]{1,9}", key) and int(key) < len(document):
            document = document[int(key)]
        else:
            break
        found += f"/{part}"
    return found
