"""Which members of an object a schema names, so that what it merely lets pass can be told from what it asks for."""

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.schema.references import REFERENCES, References
from toolhall.schema.walk import children

_REST = ("additionalProperties", "unevaluatedProperties")


class Named(msgspec.Struct, frozen=True):
    """Members by name and by pattern; `others`: it says of what kind all others are, so that they are asked for too."""

    names: frozenset[str]
    patterns: frozenset[str]
    others: bool

    def closed(self) -> JsonObject:
        """A schema that lets pass only what is named."""
        anything: JsonObject = {}
        return {
            "properties": dict.fromkeys(self.names, anything),
            "patternProperties": dict.fromkeys(self.patterns, anything),
            "additionalProperties": False,
        }


def named(schema: JsonObject) -> Named:
    """Everything that the schema, or a part of it that judges the same object, names."""
    names: set[str] = set()
    patterns: set[str] = set()
    others = False
    for part in _same_object(schema):
        names.update(_keys(part.get("properties")))
        patterns.update(_keys(part.get("patternProperties")))
        # Nothing said, `true` and {} say nothing of what others would be.
        others = others or any(isinstance(part.get(key), dict) and part[key] for key in _REST)
    return Named(frozenset(names), frozenset(patterns), others)


def _same_object(root: JsonObject) -> list[JsonObject]:
    """The schema and all its parts that look at the very same value, each once."""
    references, found = References(root), [root]
    seen = {id(root)}
    for schema in found:  # which grows meanwhile
        near: list[Json] = [
            child.schema
            for child in children(schema, "")
            if child.slot is None and child.applies and child.pointer != "/not"
        ]
        for key in REFERENCES:
            path = references.find(schema[key]) if isinstance(schema.get(key), str) else None
            near.append(None if path is None else references.at(path))
        for part in near:
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                found.append(part)
    return found


def _keys(member: Json) -> list[str]:
    return list(member) if isinstance(member, dict) else []
