"""Adapts schemas to targets that support fewer keywords (SchemaAdapter), reporting every loss by pointer.

References are inlined within limits; a keyword that the target lacks is reported as a SchemaLoss and, where it is short,
written into the description instead.
"""

import re
from collections.abc import Callable

import msgspec

from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.schema.keywords import (
    ANNOTATIONS,
    BOOLEAN_SUBSCHEMA,
    DEFINITION_KEYWORDS,
    REFERENCE_KEYWORDS,
    SINGLE_SUBSCHEMA,
    SUBSCHEMA_KEYWORDS,
    SUBSCHEMA_LIST,
    declared_draft,
    is_current,
    upgrade,
)
from toolhall.schema.merge import intersect
from toolhall.schema.references import MISSING, PointerParts, ReferenceResolver, child_at

MAX_SENTENCE_LENGTH = 300
_SENTENCES = {
    "const": "Always {}.",
    "enum": "One of: {}.",
    "default": "Default: {}.",
    "examples": "Examples: {}.",
    "format": "Format: {}.",
    "pattern": "Pattern: {}.",
    "minLength": "Minimum length: {}.",
    "maxLength": "Maximum length: {}.",
    "minimum": "Minimum: {}.",
    "maximum": "Maximum: {}.",
    "exclusiveMinimum": "Greater than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
    "minItems": "Minimum number of items: {}.",
    "maxItems": "Maximum number of items: {}.",
    "minProperties": "Minimum number of properties: {}.",
    "maxProperties": "Maximum number of properties: {}.",
    "required": "Also required: {}.",
    "additionalProperties": "Any other property: {}.",
    "dependentRequired": "Required together: {}.",
    "propertyNames": "Property names: {}.",
    "patternProperties": "Properties by pattern: {}.",
    "prefixItems": "The first items, in order: {}.",
    "not": "Not: {}.",
    "if": "If: {}.",
    "then": "Then: {}.",
    "else": "Else: {}.",
    "contains": "Contains: {}.",
}
_FLAG_SENTENCES = {"uniqueItems": "All items differ.", "deprecated": "Deprecated."}


def keyword_sentence(key: str, value: Json) -> str | None:
    """A sentence for a description; None where there is nothing to say, or too much."""
    if key in _FLAG_SENTENCES:
        return _FLAG_SENTENCES[key] if value else None
    if key in ("anyOf", "oneOf"):
        return choice_sentence(value, exactly_one=key == "oneOf")
    form = _SENTENCES.get(key)
    if form is None or value is False:
        return None
    text = form.format(_format_value(value))
    return text if len(text) <= MAX_SENTENCE_LENGTH else None


def choice_sentence(branches: list[Json], *, exactly_one: bool) -> str | None:
    """A sentence for alternatives that differ in what they require."""
    sets = list(dict.fromkeys(" and ".join(_required_members(branch)) for branch in branches))
    if not all(sets) or len(sets) == 1:
        return None
    text = f"Give {'exactly' if exactly_one else 'at least'} one of these: {', or '.join(sets)}."
    return text if len(text) <= MAX_SENTENCE_LENGTH else None


def _required_members(branch: Json) -> list[str]:
    found = branch.get("required") if isinstance(branch, dict) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def with_description(schema: JsonObject, sentences: list[str]) -> JsonObject:
    """The schema with sentences added to its description."""
    if not sentences:
        return schema
    return {
        **schema,
        "description": " ".join([*([schema["description"]] if schema.get("description") else []), *sentences]),
    }


def _format_value(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(encode(each).decode() for each in value)
    return encode(value).decode()


class SchemaLocation(msgspec.Struct, frozen=True, gc=False):
    """The pointers at which a part may be found (several once parts were merged), and the references that led here."""

    paths: tuple[PointerParts, ...] = ((),)
    ancestors: frozenset[PointerParts] = frozenset({()})
    depth: int = 0

    def at(self, *parts: str) -> "SchemaLocation":
        """The place of a part of this part."""
        paths = self.paths
        if len(paths) == 1:
            return SchemaLocation((paths[0] + parts,), self.ancestors, self.depth + 1)
        return SchemaLocation(tuple(path + parts for path in paths), self.ancestors, self.depth + 1)

    def through_reference(self, target: PointerParts) -> "SchemaLocation":
        """The place of what a reference here refers to."""
        return SchemaLocation((target, *self.paths), self.ancestors | {target}, self.depth + 1)

    def merged_with(self, other: "SchemaLocation") -> "SchemaLocation":
        """The place of a part made of this one and another one."""
        return SchemaLocation(self.paths + other.paths, self.ancestors | other.ancestors, max(self.depth, other.depth))

    def pointer(self, root: Json, *parts: str) -> str:
        """The pointer to a part of this part, or to the nearest thing around it that is in the source."""
        best: PointerParts | None = None
        for path in self.paths:
            wanted = path + parts
            found = _nearest_existing(root, wanted)
            if len(found) == len(wanted):
                best = found
                break
            best = best or found
        return "".join([f"/{escape_pointer(part)}" for part in best or ()])


def _nearest_existing(root: Json, path: PointerParts) -> PointerParts:
    for length, part in enumerate(path):
        root = child_at(root, part)
        if root is MISSING:
            return path[:length]
    return path


# References are followed until the result would be too large; a few lines of schema can ask for gigabytes.
MAX_INLINED_REFERENCES = 500
MAX_PARTS = 5_000
MAX_DEPTH = 60
_REFERENCE_OR_DEFINITION = frozenset((*REFERENCE_KEYWORDS, *DEFINITION_KEYWORDS))


class SchemaLoss(msgspec.Struct, frozen=True):
    """A keyword that the target cannot say.

    It `widens` if values that were refused would be accepted without it, and `narrows` if values that were accepted
    cannot be sent any more.
    """

    path: str
    keyword: str
    reason: str
    widens: bool = True
    narrows: bool = False


class SchemaTarget(msgspec.Struct, frozen=True):
    """How a target wants a schema: what it makes of one schema object, and whether it follows references."""

    name: str
    adapt_node: Callable[["SchemaAdapter", JsonObject, SchemaLocation], JsonObject]
    adapt_root: Callable[["SchemaAdapter", JsonObject, SchemaLocation], tuple[JsonObject, SchemaLocation]] | None = None
    supports_recursion: bool = False


class AdaptedSchema(msgspec.Struct, frozen=True):
    """A schema for a target, sentences for the description of the whole, and what is lost."""

    schema: JsonObject
    notes: list[str]
    losses: list[SchemaLoss]


class SchemaAdapter:
    """One schema on its way to a target; collects what is lost."""

    def __init__(self, root: JsonObject, target: SchemaTarget, base: str = "#") -> None:
        self.root = root
        self.target = target
        self.notes: list[str] = []
        self.losses: dict[tuple[str, str], SchemaLoss] = {}
        self._base = base
        self._draft = declared_draft(root)
        self._resolver = ReferenceResolver(root)
        self._upgraded: dict[int, JsonObject] = {}
        self._inlined_count = 0
        self._part_count = 0
        self._names: dict[PointerParts, str] = {}

    def adapt(self, schema: Json, location: SchemaLocation) -> JsonObject:
        """A schema as the target wants it."""
        self._part_count += 1
        schema = self.normalize(schema, location)
        if "$ref" in schema:
            schema, location = self.dereference(schema, location)
        if location.depth > MAX_DEPTH:
            self.report_loss(location, "", "nested too deeply to be described")
            schema = {}
        return self.target.adapt_node(self, schema, location)

    def adapt_root(self) -> JsonObject:
        """The whole schema, with the definitions that refer to themselves."""
        schema, place = self.normalize(self.root, SchemaLocation()), SchemaLocation()
        if self.target.adapt_root is not None:
            schema, place = self.target.adapt_root(self, schema, place)
            shaped = self.target.adapt_node(self, schema, place)
        else:
            shaped = self.adapt(schema, place)
        definitions = self._definitions()
        return {**shaped, "$defs": definitions} if definitions else shaped

    def normalize(self, schema: Json, location: SchemaLocation) -> JsonObject:
        """A schema object in the newest draft; `true` and `false` become objects too."""
        if type(schema) is dict:
            return schema if is_current(schema, self._draft) else self._upgrade(schema, location)
        if schema is False:
            return {"not": {}}
        if schema is not True:
            self.report_loss(location, "", "a schema is an object, true or false")
        return {}

    def dereference(self, schema: Json, location: SchemaLocation) -> tuple[JsonObject, SchemaLocation]:
        """A schema with its references followed, and where that stands.

        One that recurs stays, as the target will see it, or anything is allowed in its place.
        """
        schema = self.normalize(schema, location)
        while "$ref" in schema:
            rest = {key: part for key, part in schema.items() if key != "$ref"}
            found = self._resolver.resolve(schema["$ref"])
            if found is None:
                self.report_loss(location, "$ref", "this leads to nothing inside the schema; anything is allowed here")
                return rest, location
            if self._stops_at(found, location):
                return self._placeholder(found, rest, location), location
            self._inlined_count += 1
            location = location.through_reference(found)
            schema = self._with_siblings(self.normalize(self._resolver.value_at(found), location), rest)
        return schema, location

    def peek(self, schema: Json) -> JsonObject:
        """What a schema says at its own level, references followed; nothing is counted or reported."""
        for _ in range(MAX_DEPTH):
            schema = upgrade(schema, self._draft, _ignore_loss) if isinstance(schema, dict) else {}
            found = self._resolver.resolve(schema["$ref"]) if "$ref" in schema else None
            if found is None:
                break
            schema = self._resolver.value_at(found)
        return schema if isinstance(schema, dict) else {}

    def report_loss(
        self, location: SchemaLocation, keyword: str, reason: str, *, widens: bool = True, narrows: bool = False
    ) -> None:
        """Report a keyword (or the schema object itself, by '') that the target does not get."""
        pointer = location.pointer(self.root, *([keyword] if keyword else []))
        self.losses.setdefault((pointer, reason), SchemaLoss(pointer, keyword, reason, widens, narrows))

    def describe(self, schema: JsonObject, location: SchemaLocation, notes: list[str]) -> JsonObject:
        """The schema with sentences in its description; those on the whole are kept for the tool's own."""
        if () in location.paths:
            self.notes.extend(note for note in notes if note not in self.notes)
            return schema
        return with_description(schema, notes)

    def _upgrade(self, schema: JsonObject, location: SchemaLocation) -> JsonObject:
        """A schema object in the newest draft, once: what it says then would mean nothing in the old one."""
        if id(schema) not in self._upgraded:
            new = upgrade(
                schema, self._draft, lambda key, reason, widens: self.report_loss(location, key, reason, widens=widens)
            )
            self._upgraded[id(new)] = new
            return new
        return schema

    def _stops_at(self, found: PointerParts, location: SchemaLocation) -> bool:
        """Whether a reference is not followed: it recurs, or there has been enough."""
        enough = (
            self._inlined_count >= MAX_INLINED_REFERENCES or self._part_count >= MAX_PARTS or location.depth > MAX_DEPTH
        )
        return enough or found in location.ancestors

    def _with_siblings(self, target: JsonObject, rest: JsonObject) -> JsonObject:
        """What a reference refers to, together with what stands beside it."""
        notes = {key: part for key, part in rest.items() if key in ANNOTATIONS}
        if len(notes) == len(rest) or self._draft == "draft-07":  # where nothing beside $ref counts
            return {**target, **notes}
        constraints = {key: part for key, part in rest.items() if key not in notes}
        merged = intersect({**target, **notes}, constraints)
        return {"allOf": [target, rest]} if merged is None else merged

    def _placeholder(self, found: PointerParts, rest: JsonObject, location: SchemaLocation) -> JsonObject:
        """What stands for a reference that is not followed."""
        if self.target.supports_recursion:
            return {**rest, "$ref": self._definition_reference(found)}
        self.report_loss(location, "$ref", f"{self.target.name} gets no references; this one is not followed")
        return {**_summary(self.peek(self._resolver.value_at(found))), **rest}

    def _definition_reference(self, found: PointerParts) -> str:
        if not found:
            return self._base
        if found not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", found[-1]) or "_"
            taken = self._names.values()
            self._names[found] = next(
                name for name in (plain, *(f"{plain}_{n}" for n in range(2, len(taken) + 3))) if name not in taken
            )
        return f"{self._base}/$defs/{self._names[found]}"

    def _definitions(self) -> JsonObject:
        """What recursive references refer to; making one may ask for others."""
        made: JsonObject = {}
        while len(made) < len(self._names):
            path, name = list(self._names.items())[len(made)]
            made[name] = self.adapt(self._resolver.value_at(path), SchemaLocation((path,), frozenset({(), path})))
        return made


def adapt_schema(schema: JsonObject, target: SchemaTarget, base: str = "#") -> AdaptedSchema:
    """A schema for a target; `base` is where it will stand in its document, for references that stay."""
    reshaping = SchemaAdapter(schema, target, base)
    shaped = reshaping.adapt_root()
    return AdaptedSchema(shaped, reshaping.notes, list(reshaping.losses.values()))


def adapt_subschemas(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    """A schema object as it is, for targets that know every keyword; only what it holds is looked at."""
    if SUBSCHEMA_KEYWORDS.isdisjoint(schema):
        return schema
    shape = adapter.adapt
    shaped: JsonObject = {}
    for key, part in schema.items():
        if key not in SUBSCHEMA_KEYWORDS or (key in BOOLEAN_SUBSCHEMA and part in (True, False)):
            shaped[key] = part
        elif key in SINGLE_SUBSCHEMA:
            shaped[key] = shape(part, location.at(key))
        elif key in SUBSCHEMA_LIST:
            shaped[key] = [shape(each, location.at(key, str(index))) for index, each in enumerate(part)]
        else:
            shaped[key] = {name: shape(each, location.at(key, name)) for name, each in part.items()}
    return shaped


PLAIN_SCHEMA = SchemaTarget("a plain schema", adapt_subschemas)


def without_references(schema: JsonObject) -> JsonObject:
    """The same schema with local references replaced by what they refer to; where one recurs, anything is allowed."""
    return adapt_schema(schema, PLAIN_SCHEMA).schema if has_references(schema) else schema


def has_references(schema: Json) -> bool:
    """Whether a schema refers to, or defines, other schemas by name."""
    if not isinstance(schema, dict):
        return False
    if not _REFERENCE_OR_DEFINITION.isdisjoint(schema):
        return True
    for key in SUBSCHEMA_KEYWORDS.intersection(schema):
        part = schema[key]
        inner = [part] if key in SINGLE_SUBSCHEMA and not isinstance(part, list) else part
        if isinstance(inner, dict):
            inner = list(inner.values())
        if isinstance(inner, list) and any(map(has_references, inner)):
            return True
    return False


def _ignore_loss(keyword: str, reason: str, widens: bool) -> None:
    pass


def _summary(target: JsonObject) -> JsonObject:
    """What can be said of a schema without looking inside."""
    return {key: target[key] for key in ("type", "title", "description") if isinstance(target.get(key), str)}


class SchemaNode:
    """What the source says, what the target gets (`made`), and what goes into the description instead."""

    __slots__ = ("_sentences", "adapter", "location", "result", "schema")

    def __init__(
        self, adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation, result: JsonObject
    ) -> None:
        self.adapter = adapter
        self.schema = schema
        self.location = location
        self.result = result
        self._sentences: list[str] = []

    def report_loss(self, keyword: str, reason: str, *, widens: bool = True, narrows: bool = False) -> None:
        """Report a keyword that the target does not get."""
        self.adapter.report_loss(self.location, keyword, reason, widens=widens, narrows=narrows)

    def move_to_description(self, keyword: str, value: Json, reason: str, *, widens: bool = True) -> None:
        """Report a keyword, and put what it says into the description, if that can be said shortly."""
        text = keyword_sentence(keyword, value)
        if text is not None:
            self._sentences.append(text)
            reason = f"{reason}; it is in the description"
        self.report_loss(keyword, reason, widens=widens)

    def adapt(self, schema: Json, *parts: str) -> JsonObject:
        """A schema that this one holds, as the target wants it."""
        return self.adapter.adapt(schema, self.location.at(*parts))

    def finish(self) -> JsonObject:
        """What the target gets."""
        return self.adapter.describe(self.result, self.location, self._sentences) if self._sentences else self.result
