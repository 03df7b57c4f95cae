"""Writes schemas so that real clients can read them: without `$ref` where that is possible, without `items: false`."""

from toolhall.model.json import Json, JsonObject
from toolhall.schema.walk import children, escape

_PREFIX = "#/$defs/"
MAX_INLINED = 500


def inline(schema: JsonObject) -> JsonObject:
    """The same schema without `$defs`, but for those that refer to themselves."""
    definitions = schema.get("$defs", {})
    kept = {name for name in definitions if _recursive(name, definitions)}
    budget = [MAX_INLINED]
    result = _resolve({key: part for key, part in schema.items() if key != "$defs"}, definitions, kept, budget)
    if budget[0] <= 0:  # inlining would blow the schema up; references are the lesser evil
        return schema
    if kept:
        result["$defs"] = {
            name: _resolve(part, definitions, kept, budget) for name, part in definitions.items() if name in kept
        }
    return result  # type: ignore[no-any-return]  # an object in, an object out


def drop_closing_items(schema: JsonObject) -> JsonObject:
    """The schema, changed in place, without `items: false` where `maxItems` leaves no room behind `prefixItems`.

    Several clients look into `items` as into an object, and lose the whole list of tools when it is a boolean.
    """
    pending: list[Json] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if part.get("items") is False and is_closed_tuple(part):
                del part["items"]
            pending.extend(child.schema for child in children(part, ""))
    return schema


def is_closed_tuple(schema: JsonObject) -> bool:
    """Whether `maxItems` leaves no room behind `prefixItems`, so that nothing can ever be judged by `items`."""
    first, most = schema.get("prefixItems"), schema.get("maxItems")
    return isinstance(first, list) and isinstance(most, int | float) and most <= len(first)


def hoist(part: Json, definitions: JsonObject) -> Json:
    """Move the `$defs` of embedded schemas (whose references start at their own root) up to `definitions`."""
    match part:
        case {"$defs": dict(inner), **rest}:
            names = {name: _free_name(name, value, definitions) for name, value in inner.items()}
            for name, value in inner.items():
                definitions[names[name]] = _renamed(value, names)
            return hoist(_renamed(rest, names), definitions)
        case dict():
            return {key: hoist(value, definitions) for key, value in part.items()}
        case list():
            return [hoist(value, definitions) for value in part]
        case _:
            return part


def _free_name(name: str, part: Json, definitions: JsonObject) -> str:
    free, count = name, 2
    while free in definitions and definitions[free] != part:
        free, count = f"{name}_{count}", count + 1
    return free


def _renamed(part: Json, names: dict[str, str]) -> Json:
    match part:
        case {"$ref": str(reference), **rest} if reference.removeprefix(_PREFIX) in names:
            return {"$ref": f"{_PREFIX}{names[reference.removeprefix(_PREFIX)]}", **_renamed(rest, names)}
        case dict():
            return {key: _renamed(value, names) for key, value in part.items()}
        case list():
            return [_renamed(value, names) for value in part]
        case _:
            return part


def _references(part: Json) -> set[str]:
    match part:
        case dict():
            found = {part["$ref"].removeprefix(_PREFIX)} if isinstance(part.get("$ref"), str) else set()
            return found.union(*(_references(value) for value in part.values()))
        case list():
            return set().union(*(_references(value) for value in part))
        case _:
            return set()


def _recursive(name: str, definitions: JsonObject) -> bool:
    pending, seen = [name], set[str]()
    while pending:
        for target in _references(definitions.get(pending.pop(), {})):
            if target == name:
                return True
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return False


def _resolve(part: Json, definitions: JsonObject, kept: set[str], budget: list[int]) -> Json:
    if budget[0] <= 0:
        return part
    match part:
        case {"$ref": str(reference), **rest} if (name := reference.removeprefix(_PREFIX)) in definitions:
            if name in kept:
                return {"$ref": f"{_PREFIX}{escape(name)}", **rest}
            budget[0] -= 1
            return {**_resolve(definitions[name], definitions, kept, budget), **rest}
        case dict():
            return {key: _resolve(value, definitions, kept, budget) for key, value in part.items()}
        case list():
            return [_resolve(value, definitions, kept, budget) for value in part]
        case _:
            return part
