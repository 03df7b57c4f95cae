"""Rewrites `allOf`, `anyOf` and `oneOf` for targets without these combinators, and the root as one plain object."""

from itertools import combinations

from toolhall.model.json import Json, JsonObject
from toolhall.schema.adapt import SchemaAdapter, SchemaLocation, choice_sentence, keyword_sentence
from toolhall.schema.keywords import ANNOTATIONS
from toolhall.schema.merge import are_disjoint, const_as_enum, intersect, unite

_MAX_COMPARED = 40  # branches of a oneOf
# Keywords that describe the schema, as opposed to the values it accepts.
METADATA_KEYWORDS = ANNOTATIONS - {"format", "contentEncoding", "contentMediaType", "contentSchema"}
LocatedSchema = tuple[JsonObject, SchemaLocation]


def merge_all_of(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> LocatedSchema:
    """Merge `allOf` into the schema; branches that cannot be merged are reported as lost."""
    if "allOf" not in schema:
        return schema, location
    merged = {key: part for key, part in schema.items() if key != "allOf"}
    for index, part in enumerate(schema["allOf"]):
        branch, branch_location = merge_all_of(adapter, *adapter.dereference(part, location.at("allOf", str(index))))
        intersection = intersect(merged, branch)
        if intersection is None:
            adapter.report_loss(branch_location, "", "this cannot be merged with the keywords beside it")
        else:
            merged, location = intersection, location.merged_with(branch_location)
    return merged, location


def widen_one_of(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    """Prepare `oneOf` to be written as `anyOf`: without loss if no value matches two branches."""
    if "oneOf" not in schema:
        return schema
    if "anyOf" in schema:
        adapter.report_loss(location, "oneOf", "only one of anyOf and oneOf can be kept")
        return {key: part for key, part in schema.items() if key != "oneOf"}
    branches = [adapter.peek(part) for part in schema["oneOf"]]
    if len(branches) > _MAX_COMPARED or not all(are_disjoint(*pair) for pair in combinations(branches, 2)):
        adapter.report_loss(location, "oneOf", "written as anyOf: a value may match more than one")
    return schema


def choice_keyword(schema: JsonObject) -> str | None:
    """The keyword of a schema's alternatives, if it has any."""
    return "anyOf" if "anyOf" in schema else "oneOf" if "oneOf" in schema else None


def as_single_object(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> LocatedSchema:
    """Rewrite the root as one plain object: model APIs refuse combinators, enums and other types there."""
    schema, location = merge_all_of(adapter, *adapter.dereference(schema, location))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            schema, location = _merge_choices(adapter, schema, location, key)
    for key in ("enum", "const", "not", "$ref"):  # a remaining reference is one to the root itself
        if key in schema:
            adapter.report_loss(location, key, f"{adapter.target.name} allows no {key} at the top level")
            text = keyword_sentence(key, schema[key])
            adapter.describe(schema, location, [text] if text else [])
            schema = {name: part for name, part in schema.items() if name != key}
    if schema.get("type", "object") not in ("object", ["object"]):
        adapter.report_loss(location, "type", "arguments are always an object")
    return {**schema, "type": "object", "properties": schema.get("properties", {})}, location


def _merge_choices(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation, key: str) -> LocatedSchema:
    """Merge alternative objects into one: required is what all require, a member may be what it is in any branch.

    A branch that does not declare a member is taken not to use it, though it may accept any value.
    """
    rest = {name: part for name, part in schema.items() if name != key}
    merged = [
        merge_all_of(adapter, *adapter.dereference(part, location.at(key, str(index))))
        for index, part in enumerate(schema[key])
    ]
    branches = [
        (const_as_enum(branch), branch_location)
        for branch, branch_location in merged
        if "not" not in branch or branch["not"] != {}
    ]
    if not branches:
        return rest, location
    sentence = choice_sentence([branch for branch, _ in branches], exactly_one=key == "oneOf")
    adapter.describe(rest, location, [sentence] if sentence else [])
    adapter.report_loss(location, key, "alternatives at the top level are merged into one object")
    for _, branch_location in branches:
        location = location.merged_with(branch_location)
    return _merge_objects(rest, [branch for branch, _ in branches]), location


def _merge_objects(rest: JsonObject, branches: list[JsonObject]) -> JsonObject:
    members: dict[str, list[Json]] = {}
    for branch in branches:
        for name, part in branch.get("properties", {}).items():
            members.setdefault(name, []).append(part)
    open_root = rest.get("additionalProperties", True) is not False
    properties = dict(rest.get("properties", {}))
    for name, parts in members.items():
        if name in properties:
            # If a branch does not declare the member, the root's schema for it stays.
            narrowed = _intersect_member(properties[name], parts) if len(parts) == len(branches) else None
            properties[name] = properties[name] if narrowed is None else narrowed
        elif open_root:
            properties[name] = unite([part if isinstance(part, dict) else {} for part in parts])
    required = [
        name for name in branches[0].get("required", []) if all(name in b.get("required", []) for b in branches)
    ]
    united = {**rest, "properties": properties}
    if required or "required" in rest:
        united["required"] = list(dict.fromkeys([*rest.get("required", []), *required]))
    if all(branch.get("additionalProperties") is False for branch in branches):
        united["additionalProperties"] = False
    return united


def _intersect_member(own: Json, parts: list[Json]) -> JsonObject | None:
    if not isinstance(own, dict) or not all(isinstance(part, dict) for part in parts):
        return None
    return intersect(own, unite(parts))


def alternatives(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation, key: str) -> list[LocatedSchema]:
    """The branches of a choice, each merged with the keywords beside the choice; without those that accept nothing."""
    siblings = {name: part for name, part in schema.items() if name != key and name not in METADATA_KEYWORDS}
    branches: list[LocatedSchema] = []
    for index, part in enumerate(schema[key]):
        branch, branch_location = merge_all_of(adapter, *adapter.dereference(part, location.at(key, str(index))))
        if branch.get("not") == {}:
            continue
        merged = intersect(siblings, branch)
        if merged is None:
            adapter.report_loss(branch_location, "", "this cannot be merged with the keywords beside it")
            merged = branch
        merged_location = branch_location.merged_with(location) if siblings else branch_location
        branches.append((const_as_enum(merged), merged_location))
    return branches
