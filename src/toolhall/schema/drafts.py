"""Schemas of older drafts, or not quite schemas, as sound JSON Schema 2020-12."""

from collections.abc import Callable

from toolhall.model.json import Json, JsonObject
from toolhall.schema.bounds import DRAFTS
from toolhall.schema.keywords import ANNOTATIONS, MEANT, TYPES, is_names, unsound
from toolhall.schema.references import DEFINITIONS

Lose = Callable[[str, str, bool], None]  # keyword, reason, whether more values are accepted without it
NEWEST = "2020-12"
_NAMES = frozenset({"$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", *DEFINITIONS})
_RENAMED = frozenset({"$dynamicRef", "$recursiveRef", "$id", "$schema"})
_GONE = frozenset({"dependencies", "additionalItems"})
_TOUCHED = _NAMES | _RENAMED | _GONE
_SINCE_2020 = frozenset({"prefixItems"})
_SINCE_2019 = frozenset({
    "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "minContains", "maxContains",
})  # fmt: skip
_LATER = {"draft-07": _SINCE_2019 | _SINCE_2020, "2019-09": _SINCE_2020}


def draft_in(root: JsonObject) -> str:
    """The draft that a document is written in; what is older than we know is read as the oldest we know."""
    declared = root.get("$schema")
    if not isinstance(declared, str):
        return NEWEST
    return DRAFTS.get(declared.rstrip("#"), "draft-07")


def is_sound(schema: JsonObject, draft: str) -> bool:
    """Whether a schema object needs no renewal."""
    return not unsound(schema) and _TOUCHED.isdisjoint(schema) and (draft == NEWEST or _LATER[draft].isdisjoint(schema))


def renewed(schema: JsonObject, draft: str, lose: Lose) -> JsonObject:
    """The same schema object in 2020-12, without what only references need; keywords with impossible values go."""
    schema = dict(schema)
    tuple_form = isinstance(schema.get("items"), list) and bool(schema["items"])
    if draft != NEWEST:
        for key in _LATER[draft].intersection(schema):
            del schema[key]
            lose(key, f"{key} means nothing in {draft}", False)
    for key in unsound(schema):
        _mend(schema, key, lose)
    if not _TOUCHED.isdisjoint(schema):
        _rename(schema, draft, lose)
        _replace(schema, draft, tuple_form=tuple_form)
    return schema


def _mend(schema: JsonObject, key: str, lose: Lose) -> None:
    """Take what can be meant from a value that JSON Schema does not allow."""
    value = schema.pop(key)
    if key == "items" and isinstance(value, list) and value:
        schema["prefixItems"] = value
        return
    mended: Json = None
    if key == "type":
        mended = _meant(value)
    elif key == "required" and isinstance(value, list):
        mended = list(dict.fromkeys(each for each in value if isinstance(each, str))) or None
    if mended is not None:
        schema[key] = mended
    nearest = "" if mended is None else "; the nearest is written"
    lose(key, f"the value of {key} is not valid JSON Schema{nearest}", key not in ANNOTATIONS)


def _meant(value: Json) -> Json:
    named = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    known = [MEANT.get(each.lower(), each.lower()) for each in named if isinstance(each, str)]
    kept = list(dict.fromkeys(each for each in known if each in TYPES))
    if not kept or len(kept) != len(set(known)):  # one of them may mean anything
        return None
    return kept[0] if isinstance(value, str) else kept


def _rename(schema: JsonObject, draft: str, lose: Lose) -> None:
    for key in _NAMES.intersection(schema):
        del schema[key]  # what they name is written where it is used
    for key in ("$recursiveRef", "$dynamicRef"):
        # In one document without inner ids, the dynamic scope holds nothing but the document itself.
        if key in schema:
            schema.setdefault("$ref", schema.pop(key))
    if "$id" in schema:
        del schema["$id"]
        lose("$id", "the schema is no document of its own here", False)
    # A part that names another dialect than the whole has no say in it, and must not speak for the whole when merged.
    if "$schema" in schema and (draft != NEWEST or draft_in(schema) != NEWEST):
        del schema["$schema"]
        lose("$schema", f"written in JSON Schema {NEWEST}", False)


def _replace(schema: JsonObject, draft: str, *, tuple_form: bool) -> None:
    """Keywords that later drafts gave another name; where they mean nothing, they go."""
    rest = schema.pop("additionalItems", None)
    if tuple_form and isinstance(rest, dict | bool):
        schema["items"] = rest
    needed = schema.pop("dependencies", None)
    if draft != "draft-07" or not isinstance(needed, dict):
        return
    lists = {name: value for name, value in needed.items() if isinstance(value, list) and is_names(value)}
    if lists:
        schema["dependentRequired"] = lists
    schemas = {name: value for name, value in needed.items() if isinstance(value, dict | bool)}
    if schemas:
        schema["dependentSchemas"] = schemas
