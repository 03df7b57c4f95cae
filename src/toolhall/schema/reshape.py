"""Schemas for targets that cannot follow references: everything inlined, recursion cut where it begins."""

from toolhall.model.json import Json, JsonObject

_DEFINITIONS = ("$defs", "definitions")
MAX_INLINED = 2_000


def without_references(schema: JsonObject) -> JsonObject:
    """The same schema with local references replaced by what they refer to; where one recurs, anything is allowed."""
    if not has_references(schema):
        return schema
    budget = [MAX_INLINED]
    result = _inlined(schema, schema, frozenset(), budget)
    return result if isinstance(result, dict) else {}


def has_references(part: Json) -> bool:
    """Whether a schema refers to, or defines, other schemas by name."""
    if isinstance(part, dict):
        if "$ref" in part or any(key in part for key in _DEFINITIONS):
            return True
        return any(has_references(value) for value in part.values())
    return isinstance(part, list) and any(has_references(value) for value in part)


def _inlined(part: Json, root: JsonObject, above: frozenset[str], budget: list[int]) -> Json:
    if isinstance(part, list):
        return [_inlined(value, root, above, budget) for value in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    rest = {
        key: _inlined(value, root, above, budget)
        for key, value in part.items()
        if key != "$ref" and key not in _DEFINITIONS
    }
    if not isinstance(reference, str):
        return rest
    target = _resolve(reference, root)
    budget[0] -= 1
    if target is None or reference in above or budget[0] < 0:
        return rest
    inner = _inlined(target, root, above | {reference}, budget)
    return {**inner, **rest} if isinstance(inner, dict) else rest


def _resolve(reference: str, root: JsonObject) -> Json | None:
    if not reference.startswith("#"):
        return None
    found: Json = root
    for part in reference[2:].split("/") if len(reference) > 1 else []:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, dict) else None
    return found
