"""SchemaAdapter rewrites a schema for a target that supports fewer keywords, and reports every loss by pointer.

Theory of operation. Model APIs, OpenAPI and other targets accept subsets of JSON Schema, each a different one. A
SchemaTarget is a function that rewrites one schema object; SchemaAdapter walks the schema, prepares each object for it
and collects what is lost:

1. `normalize`: every object becomes an object of draft 2020-12 with valid keywords (`keywords.upgrade`); `true` and
   `false` become `{}` and `{"not": {}}`.
2. `dereference`: `$ref` is replaced by its target, merged with the keywords beside it (`merge.intersect`). A reference
   to an ancestor is recursive and is not followed; nor is any reference beyond MAX_INLINED_REFERENCES, MAX_PARTS or
   MAX_DEPTH, because a few lines of schema can expand to gigabytes. Such a reference stays if the target supports
   recursion (`_definitions` adds its `$defs`); otherwise it becomes a summary of its target, which is a loss.
3. `target.adapt_node` drops or rewrites what the target lacks. A dropped keyword is reported as a SchemaLoss, which
   says whether the result accepts more values (`widens`) or fewer (`narrows`). If that is short, it is also written as
   a sentence into the description, so that a model still learns of it (SchemaNode.move_to_description).

A SchemaLocation follows each part from the source to the result. Merging and inlining combine parts from several
pointers, so a location has several; a loss is reported at the first of them that exists in the source document.
`combinators.py` has the rewriting of `allOf`, `anyOf` and `oneOf` that several targets share.
"""

import re
from collections.abc import Callable

import msgspec

from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.schema.keywords import (
    ANNOTATIONS,
    BOOLEAN_SUBSCHEMA,
    DEFINITION_KEYWORDS,
    MISSING,
    REFERENCE_KEYWORDS,
    SINGLE_SUBSCHEMA,
    SUBSCHEMA_KEYWORDS,
    SUBSCHEMA_LIST,
    PointerParts,
    ReferenceResolver,
    child_at,
    declared_draft,
    is_current,
    upgrade,
)
from toolhall.schema.merge import intersect

MAX_INLINED_REFERENCES = 500
MAX_PARTS = 5_000
MAX_DEPTH = 60
MAX_SENTENCE_LENGTH = 300
_REFERENCE_OR_DEFINITION = frozenset((*REFERENCE_KEYWORDS, *DEFINITION_KEYWORDS))
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


class SchemaLocation(msgspec.Struct, frozen=True, gc=False):
    """The source pointers of a part (several once parts were merged), and the references that were followed to it."""

    paths: tuple[PointerParts, ...] = ((),)
    ancestors: frozenset[PointerParts] = frozenset({()})
    depth: int = 0

    def at(self, *parts: str) -> "SchemaLocation":
        """The location of a child."""
        paths = self.paths
        if len(paths) == 1:
            return SchemaLocation((paths[0] + parts,), self.ancestors, self.depth + 1)
        return SchemaLocation(tuple(path + parts for path in paths), self.ancestors, self.depth + 1)

    def through_reference(self, target: PointerParts) -> "SchemaLocation":
        """The location of the target of a reference here."""
        return SchemaLocation((target, *self.paths), self.ancestors | {target}, self.depth + 1)

    def merged_with(self, other: "SchemaLocation") -> "SchemaLocation":
        """The location of a part that was merged from this one and another one."""
        return SchemaLocation(self.paths + other.paths, self.ancestors | other.ancestors, max(self.depth, other.depth))

    def pointer(self, root: Json, *parts: str) -> str:
        """The pointer to a child in the source, or to its nearest ancestor that exists there."""
        best: PointerParts | None = None
        for path in self.paths:
            full = path + parts
            existing = _nearest_existing(root, full)
            if len(existing) == len(full):
                best = existing
                break
            best = best or existing
        return "".join([f"/{escape_pointer(part)}" for part in best or ()])


class SchemaLoss(msgspec.Struct, frozen=True):
    """A keyword that the target does not support.

    `widens`: the result accepts values that the source refuses. `narrows`: the result refuses values that the source
    accepts.
    """

    path: str
    keyword: str
    reason: str
    widens: bool = True
    narrows: bool = False


class SchemaTarget(msgspec.Struct, frozen=True):
    """How to rewrite one schema object, and the root, for a target; and whether the target supports references."""

    name: str
    adapt_node: Callable[["SchemaAdapter", JsonObject, SchemaLocation], JsonObject]
    adapt_root: Callable[["SchemaAdapter", JsonObject, SchemaLocation], tuple[JsonObject, SchemaLocation]] | None = None
    supports_recursion: bool = False


class AdaptedSchema(msgspec.Struct, frozen=True):
    """A schema for a target, sentences for the tool's own description, and the losses."""

    schema: JsonObject
    notes: list[str]
    losses: list[SchemaLoss]


class SchemaAdapter:
    """Rewrites one schema for a target; see the module's theory of operation."""

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
        """The schema, rewritten for the target."""
        self._part_count += 1
        schema = self.normalize(schema, location)
        if "$ref" in schema:
            schema, location = self.dereference(schema, location)
        if location.depth > MAX_DEPTH:
            self.report_loss(location, "", "nested too deeply to be described")
            schema = {}
        return self.target.adapt_node(self, schema, location)

    def adapt_root(self) -> JsonObject:
        """The whole schema, rewritten, with the definitions of recursive references."""
        schema, location = self.normalize(self.root, SchemaLocation()), SchemaLocation()
        if self.target.adapt_root is not None:
            schema, location = self.target.adapt_root(self, schema, location)
            adapted = self.target.adapt_node(self, schema, location)
        else:
            adapted = self.adapt(schema, location)
        definitions = self._definitions()
        return {**adapted, "$defs": definitions} if definitions else adapted

    def normalize(self, schema: Json, location: SchemaLocation) -> JsonObject:
        """The schema as an object of draft 2020-12; `true` and `false` become objects too."""
        if type(schema) is dict:
            return schema if is_current(schema, self._draft) else self._upgrade(schema, location)
        if schema is False:
            return {"not": {}}
        if schema is not True:
            self.report_loss(location, "", "a schema is an object, true or false")
        return {}

    def dereference(self, schema: Json, location: SchemaLocation) -> tuple[JsonObject, SchemaLocation]:
        """The schema with its references replaced by their targets, and its new location.

        A recursive reference stays as a reference to the result's `$defs`, or becomes a summary of its target.
        """
        schema = self.normalize(schema, location)
        while "$ref" in schema:
            siblings = {key: part for key, part in schema.items() if key != "$ref"}
            target = self._resolver.resolve(schema["$ref"])
            if target is None:
                self.report_loss(location, "$ref", "this leads to nothing inside the schema; anything is allowed here")
                return siblings, location
            if self._stops_at(target, location):
                return self._placeholder(target, siblings, location), location
            self._inlined_count += 1
            location = location.through_reference(target)
            schema = self._with_siblings(self.normalize(self._resolver.value_at(target), location), siblings)
        return schema, location

    def peek(self, schema: Json) -> JsonObject:
        """The schema object itself, with its reference followed; nothing is counted or reported."""
        for _ in range(MAX_DEPTH):
            schema = upgrade(schema, self._draft, _ignore_loss) if isinstance(schema, dict) else {}
            target = self._resolver.resolve(schema["$ref"]) if "$ref" in schema else None
            if target is None:
                break
            schema = self._resolver.value_at(target)
        return schema if isinstance(schema, dict) else {}

    def report_loss(
        self, location: SchemaLocation, keyword: str, reason: str, *, widens: bool = True, narrows: bool = False
    ) -> None:
        """Record the loss of a keyword, or of the schema object itself ('')."""
        pointer = location.pointer(self.root, *([keyword] if keyword else []))
        self.losses.setdefault((pointer, reason), SchemaLoss(pointer, keyword, reason, widens, narrows))

    def describe(self, schema: JsonObject, location: SchemaLocation, notes: list[str]) -> JsonObject:
        """The schema with sentences added to its description; those of the root go to the tool's description."""
        if () in location.paths:
            self.notes.extend(note for note in notes if note not in self.notes)
            return schema
        return with_description(schema, notes)

    def _upgrade(self, schema: JsonObject, location: SchemaLocation) -> JsonObject:
        """Upgrade a schema object once: the result would mean something else as an object of the old draft."""
        if id(schema) not in self._upgraded:
            upgraded = upgrade(
                schema, self._draft, lambda key, reason, widens: self.report_loss(location, key, reason, widens=widens)
            )
            self._upgraded[id(upgraded)] = upgraded
            return upgraded
        return schema

    def _stops_at(self, target: PointerParts, location: SchemaLocation) -> bool:
        """Whether a reference is not followed: it is recursive, or a limit is reached."""
        limit_reached = (
            self._inlined_count >= MAX_INLINED_REFERENCES or self._part_count >= MAX_PARTS or location.depth > MAX_DEPTH
        )
        return limit_reached or target in location.ancestors

    def _with_siblings(self, target: JsonObject, siblings: JsonObject) -> JsonObject:
        """The target of a reference, merged with the keywords beside the reference."""
        annotations = {key: part for key, part in siblings.items() if key in ANNOTATIONS}
        if len(annotations) == len(siblings) or self._draft == "draft-07":  # which ignores keywords beside $ref
            return {**target, **annotations}
        constraints = {key: part for key, part in siblings.items() if key not in annotations}
        merged = intersect({**target, **annotations}, constraints)
        return {"allOf": [target, siblings]} if merged is None else merged

    def _placeholder(self, target: PointerParts, siblings: JsonObject, location: SchemaLocation) -> JsonObject:
        """The replacement of a reference that is not followed."""
        if self.target.supports_recursion:
            return {**siblings, "$ref": self._definition_reference(target)}
        self.report_loss(location, "$ref", f"{self.target.name} gets no references; this one is not followed")
        return {**_summary(self.peek(self._resolver.value_at(target))), **siblings}

    def _definition_reference(self, target: PointerParts) -> str:
        if not target:
            return self._base
        if target not in self._names:
            valid = re.sub(r"[^A-Za-z0-9_.-]", "_", target[-1]) or "_"
            taken = self._names.values()
            self._names[target] = next(
                name for name in (valid, *(f"{valid}_{n}" for n in range(2, len(taken) + 3))) if name not in taken
            )
        return f"{self._base}/$defs/{self._names[target]}"

    def _definitions(self) -> JsonObject:
        """The targets of recursive references; adapting one may add others."""
        definitions: JsonObject = {}
        while len(definitions) < len(self._names):
            path, name = list(self._names.items())[len(definitions)]
            definitions[name] = self.adapt(
                self._resolver.value_at(path), SchemaLocation((path,), frozenset({(), path}))
            )
        return definitions


class SchemaNode:
    """One schema object while it is rewritten: the source `schema`, the `result`, and sentences for its description."""

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
        """Record the loss of a keyword."""
        self.adapter.report_loss(self.location, keyword, reason, widens=widens, narrows=narrows)

    def move_to_description(self, keyword: str, value: Json, reason: str, *, widens: bool = True) -> None:
        """Record the loss of a keyword, and describe it in the description if that is short."""
        text = keyword_sentence(keyword, value)
        if text is not None:
            self._sentences.append(text)
            reason = f"{reason}; it is in the description"
        self.report_loss(keyword, reason, widens=widens)

    def adapt(self, schema: Json, *parts: str) -> JsonObject:
        """A subschema, rewritten for the target."""
        return self.adapter.adapt(schema, self.location.at(*parts))

    def finish(self) -> JsonObject:
        """The result, with the sentences in its description."""
        return self.adapter.describe(self.result, self.location, self._sentences) if self._sentences else self.result


def adapt_schema(schema: JsonObject, target: SchemaTarget, base: str = "#") -> AdaptedSchema:
    """Adapt a schema for a target; `base` is its position in the target document, for references that stay."""
    adapter = SchemaAdapter(schema, target, base)
    adapted = adapter.adapt_root()
    return AdaptedSchema(adapted, adapter.notes, list(adapter.losses.values()))


def adapt_subschemas(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    """Rewrite subschemas only: the `adapt_node` of targets that support every keyword."""
    if SUBSCHEMA_KEYWORDS.isdisjoint(schema):
        return schema
    adapt = adapter.adapt
    adapted: JsonObject = {}
    for key, part in schema.items():
        if key not in SUBSCHEMA_KEYWORDS or (key in BOOLEAN_SUBSCHEMA and part in (True, False)):
            adapted[key] = part
        elif key in SINGLE_SUBSCHEMA:
            adapted[key] = adapt(part, location.at(key))
        elif key in SUBSCHEMA_LIST:
            adapted[key] = [adapt(each, location.at(key, str(index))) for index, each in enumerate(part)]
        else:
            adapted[key] = {name: adapt(each, location.at(key, name)) for name, each in part.items()}
    return adapted


PLAIN_SCHEMA = SchemaTarget("a plain schema", adapt_subschemas)


def without_references(schema: JsonObject) -> JsonObject:
    """The schema with local references inlined; a recursive reference becomes a summary that accepts more."""
    return adapt_schema(schema, PLAIN_SCHEMA).schema if has_references(schema) else schema


def has_references(schema: Json) -> bool:
    """Whether a schema has references or definitions, at any depth."""
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
    """The type, title and description of a schema."""
    return {key: target[key] for key in ("type", "title", "description") if isinstance(target.get(key), str)}


def _nearest_existing(root: Json, path: PointerParts) -> PointerParts:
    for length, part in enumerate(path):
        root = child_at(root, part)
        if root is MISSING:
            return path[:length]
    return path


def keyword_sentence(key: str, value: Json) -> str | None:
    """A sentence that describes a keyword; None if it has no effect, or if the sentence is too long."""
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
    """A sentence for alternatives that differ in their required members."""
    sets = list(dict.fromkeys(" and ".join(_required_members(branch)) for branch in branches))
    if not all(sets) or len(sets) == 1:
        return None
    text = f"Give {'exactly' if exactly_one else 'at least'} one of these: {', or '.join(sets)}."
    return text if len(text) <= MAX_SENTENCE_LENGTH else None


def _required_members(branch: Json) -> list[str]:
    required = branch.get("required") if isinstance(branch, dict) else None
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


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
