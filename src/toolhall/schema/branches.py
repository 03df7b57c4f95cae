"""Combined schemas for targets that cannot combine: `allOf` merged, `oneOf` widened, one object at the root."""

from itertools import combinations

from toolhall.model.json import Json, JsonObject
from toolhall.schema.keywords import ANNOTATIONS
from toolhall.schema.merge import both, const_as_enum, disjoint, either
from toolhall.schema.place import Place
from toolhall.schema.reshape import Reshaping
from toolhall.schema.sentences import choice, sentence

_MOST_COMPARED = 40
# What a schema says of itself, as opposed to the values it accepts.
ABOUT = ANNOTATIONS - {"format", "contentEncoding", "contentMediaType", "contentSchema"}
Branch = tuple[JsonObject, Place]


def merge_all(reshaping: Reshaping, schema: JsonObject, place: Place) -> Branch:
    """A schema with its `allOf` merged into it; what cannot be merged is lost."""
    if "allOf" not in schema:
        return schema, place
    merged = {key: part for key, part in schema.items() if key != "allOf"}
    for index, part in enumerate(schema["allOf"]):
        opened, where = merge_all(reshaping, *reshaping.opened(part, place.at("allOf", str(index))))
        joined = both(merged, opened)
        if joined is None:
            reshaping.lose(where, "", "this cannot be said together with what stands beside it")
        else:
            merged, place = joined, place.joined(where)
    return merged, place


def widen_one_of(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    """A schema whose `oneOf` may be read as `anyOf`: the same if no value fits two of them, else a loss."""
    if "oneOf" not in schema:
        return schema
    if "anyOf" in schema:
        reshaping.lose(place, "oneOf", "a second choice beside anyOf cannot be said")
        return {key: part for key, part in schema.items() if key != "oneOf"}
    branches = [reshaping.peek(part) for part in schema["oneOf"]]
    if len(branches) > _MOST_COMPARED or not all(disjoint(*pair) for pair in combinations(branches, 2)):
        reshaping.lose(place, "oneOf", "written as anyOf: a value may fit more than one")
    return schema


def choice_in(schema: JsonObject) -> str | None:
    """The keyword that gives the alternatives of a schema, if it has any."""
    return "anyOf" if "anyOf" in schema else "oneOf" if "oneOf" in schema else None


def one_object(reshaping: Reshaping, schema: JsonObject, place: Place) -> Branch:
    """The root as one plain object: model APIs refuse combinations, values and other types there."""
    schema, place = merge_all(reshaping, *reshaping.opened(schema, place))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            schema, place = _merge_choices(reshaping, schema, place, key)
    for key in ("enum", "const", "not", "$ref"):  # a reference that is left leads back to the root itself
        if key in schema:
            reshaping.lose(place, key, f"{reshaping.target.name} allows no {key} at the top level")
            text = sentence(key, schema[key])
            reshaping.note(schema, place, [text] if text else [])
            schema = {name: part for name, part in schema.items() if name != key}
    if schema.get("type", "object") not in ("object", ["object"]):
        reshaping.lose(place, "type", "arguments are always an object")
    return {**schema, "type": "object", "properties": schema.get("properties", {})}, place


def _merge_choices(reshaping: Reshaping, schema: JsonObject, place: Place, key: str) -> Branch:
    """Alternative objects as one: what all require is required, and a member may be what it is in any of them.

    A branch that does not speak of a member is taken not to use it, though it may allow any.
    """
    rest = {name: part for name, part in schema.items() if name != key}
    opened = [
        merge_all(reshaping, *reshaping.opened(part, place.at(key, str(index))))
        for index, part in enumerate(schema[key])
    ]
    branches = [
        (const_as_enum(branch), where) for branch, where in opened if "not" not in branch or branch["not"] != {}
    ]
    if not branches:
        return rest, place
    said = choice([branch for branch, _ in branches], one=key == "oneOf")
    reshaping.note(rest, place, [said] if said else [])
    reshaping.lose(place, key, "alternatives at the top level are merged into one object")
    for _, where in branches:
        place = place.joined(where)
    return _united(rest, [branch for branch, _ in branches]), place


def _united(rest: JsonObject, branches: list[JsonObject]) -> JsonObject:
    members: dict[str, list[Json]] = {}
    for branch in branches:
        for name, part in branch.get("properties", {}).items():
            members.setdefault(name, []).append(part)
    open_root = rest.get("additionalProperties", True) is not False
    properties = dict(rest.get("properties", {}))
    for name, parts in members.items():
        if name in properties:
            # A branch without the member leaves it as the root has it.
            narrowed = _narrowed(properties[name], parts) if len(parts) == len(branches) else None
            properties[name] = properties[name] if narrowed is None else narrowed
        elif open_root:
            properties[name] = either([part if isinstance(part, dict) else {} for part in parts])
    required = [
        name for name in branches[0].get("required", []) if all(name in b.get("required", []) for b in branches)
    ]
    united = {**rest, "properties": properties}
    if required or "required" in rest:
        united["required"] = list(dict.fromkeys([*rest.get("required", []), *required]))
    if all(branch.get("additionalProperties") is False for branch in branches):
        united["additionalProperties"] = False
    return united


def _narrowed(own: Json, parts: list[Json]) -> JsonObject | None:
    if not isinstance(own, dict) or not all(isinstance(part, dict) for part in parts):
        return None
    return both(own, either(parts))


def alternatives(reshaping: Reshaping, schema: JsonObject, place: Place, key: str) -> list[Branch]:
    """The branches of a choice, each together with what stands beside it; such as accept nothing are left out."""
    beside = {name: part for name, part in schema.items() if name != key and name not in ABOUT}
    found: list[Branch] = []
    for index, part in enumerate(schema[key]):
        branch, where = merge_all(reshaping, *reshaping.opened(part, place.at(key, str(index))))
        if branch.get("not") == {}:
            continue
        merged = both(beside, branch)
        if merged is None:
            reshaping.lose(where, "", "this cannot be said together with what stands beside it")
            merged = branch
        found.append((const_as_enum(merged), where.joined(place) if beside else where))
    return found
