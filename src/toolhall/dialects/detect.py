"""Which dialect a document looks like one of."""

from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import READABLE, readable
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.json import Json, JsonObject


def detected(document: Json) -> Catalog:
    """The catalog that a document looks like one of; BadDocument if it looks like none."""
    name = _look(document) if isinstance(document, dict) else None
    if name is None:
        fix = f"this looks like no known definition; say what it is: --from {', '.join(READABLE)}"
        raise BadDocument([Finding("", "convert/unknown", fix)])
    return readable(name)


def _look(document: JsonObject) -> str | None:
    if "inputSchema" in document:
        return "mcp"
    if "input_schema" in document or "output_schema" in document:
        return "oxp"
    if isinstance(document.get("capabilities"), list):
        return "machine"
    if isinstance(document.get("tool"), dict) or isinstance(document.get("capabilities"), dict):
        return "hub"
    return "function" if isinstance(document.get("name"), str) or "function" in document else None
