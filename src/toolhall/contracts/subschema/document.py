"""A schema under comparison (SchemaDocument): its parts with references and `allOf` resolved into NormalizedNodes."""

from collections.abc import Iterable

import msgspec

from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.schema.keywords import KEYWORD_TYPE, SUBSCHEMA_KEYWORDS, declared_draft, is_current, upgrade
from toolhall.schema.references import ReferenceResolver

# Keywords that judge a value; how a text is written (`format`, encodings) is promised too, though nobody checks it.
VALIDATION_KEYWORDS = frozenset({"type", "enum", "const", "$ref"}) | SUBSCHEMA_KEYWORDS | KEYWORD_TYPE.keys()
FALSE_SCHEMA: JsonObject = {"not": {}}
INVALID_SCHEMA: JsonObject = {"$ref": None}  # a reference that leads nowhere, or what is no schema at all
_IN_PLACE_ONE = ("if", "then", "else")
_IN_PLACE_LIST = ("anyOf", "oneOf")
_IN_PLACE = frozenset({*_IN_PLACE_ONE, *_IN_PLACE_LIST, "dependentSchemas"})
_FLATTENED = frozenset({"$ref", "allOf"})
_encode = msgspec.json.Encoder(order="deterministic").encode


class SchemaPart(msgspec.Struct, frozen=True):
    """A schema as it stands in a document, and the pointer to it."""

    schema: Json
    pointer: str

    def pointer_to(self, *parts: str | int) -> str:
        """The pointer to something inside."""
        return self.pointer + "".join(f"/{escape_pointer(str(part))}" for part in parts)


class NormalizedNode(msgspec.Struct, frozen=True):
    """A schema object in the newest draft that a value must fit; `key` tells it from others made of the same one."""

    schema: JsonObject
    pointer: str
    key: str

    def part(self, *parts: str | int) -> SchemaPart:
        """A schema that this one holds."""
        found: Json = self.schema
        for each in parts:
            found = found[each]
        return SchemaPart(found, self.pointer_to(*parts))

    def pointer_to(self, *parts: str | int) -> str:
        """The pointer to something inside."""
        return self.pointer + "".join(f"/{escape_pointer(str(part))}" for part in parts)

    def without(self, *keys: str) -> "NormalizedNode":
        """The same without some of its keywords."""
        kept = {key: part for key, part in self.schema.items() if key not in keys}
        return NormalizedNode(kept, self.pointer, f"{self.key} -{keys[0]}")


Nodes = tuple[NormalizedNode, ...]


class MemberDeclarations(msgspec.Struct, frozen=True):
    """The members that schemas speak of: by name, by pattern, or all others by a schema of their own."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    has_rest_schema: bool = False
    lists_members: bool = False  # there is a list of members, if only an empty one


class MemberScope(msgspec.Struct, frozen=True):
    """All that speaks of a value's members, whether it applies or not; `number` is the same for the same nodes."""

    nodes: Nodes
    declared: MemberDeclarations
    number: int


class Constraints(msgspec.Struct, frozen=True):
    """What a value must fit, and what speaks of its members."""

    nodes: Nodes
    scope: MemberScope


class SchemaDocument:
    """A schema and what was found out about its parts."""

    def __init__(self, root: Json) -> None:
        self.root = root
        known = root if isinstance(root, dict) else {}
        self.draft = declared_draft(known)
        self._references = ReferenceResolver(known)
        self._conjuncts: dict[str, Nodes] = {}
        self._declared_members: dict[tuple[str, bool], MemberDeclarations] = {}
        self._scopes: dict[tuple[str, ...], MemberScope] = {}
        self.inner_scopes: dict[tuple[int, str, str], MemberScope] = {}
        self._encoded: dict[str, bytes] = {}

    def conjuncts(self, part: SchemaPart) -> Nodes:
        """All schema objects that a value must fit; none where anything goes."""
        found = self._conjuncts.get(part.pointer)
        if found is None:
            found = self._conjuncts[part.pointer] = tuple(self._find_conjuncts(part))
        return found

    def node_conjuncts(self, node: NormalizedNode) -> list[NormalizedNode]:
        """A node, and all that it demands beside."""
        return self._find_conjuncts(SchemaPart(node.schema, node.pointer))

    def declared_members(self, nodes: Iterable[NormalizedNode], *, alternatives: bool = True) -> MemberDeclarations:
        """The members that these speak of, whatever else decides whether they apply; without `choices`, always."""
        found = [self._node_members(node, alternatives) for node in nodes]
        if len(found) == 1:
            return found[0]
        return MemberDeclarations(
            frozenset().union(*(each.names for each in found)),
            frozenset().union(*(each.patterns for each in found)),
            any(each.has_rest_schema for each in found),
            any(each.lists_members for each in found),
        )

    def scope(self, nodes: Nodes) -> MemberScope:
        """Everything that may judge the value that these judge."""
        keys = tuple([node.key for node in nodes])
        found = self._scopes.get(keys)
        if found is None:
            found = MemberScope(self._with_in_place(nodes), self.declared_members(nodes), len(self._scopes))
            self._scopes[keys] = found
        return found

    def _with_in_place(self, nodes: Nodes) -> Nodes:
        if all(_IN_PLACE.isdisjoint(node.schema) for node in nodes):
            return nodes
        found = {node.key: node for node in nodes}
        pending = list(nodes)
        for node in pending:  # it grows
            for each in self._in_place_nodes(node, alternatives=True):
                if each.key not in found:
                    found[each.key] = each
                    pending.append(each)
        return tuple(found.values())

    def encoded(self, node: NormalizedNode) -> bytes:
        """A node's own words, equal for equal ones; empty where they mean something only in this document."""
        found = self._encoded.get(node.key)
        if found is None:
            encoded = _encode(node.schema)
            found = self._encoded[node.key] = b"" if b'ef":' in encoded else encoded  # $ref, $dynamicRef, $recursiveRef
        return found

    def _find_conjuncts(self, part: SchemaPart) -> list[NormalizedNode]:
        nodes: list[NormalizedNode] = []
        pending, seen = [part], {part.pointer}
        for each in pending:  # it grows
            schema = self.normalized(each.schema)
            for inner in self._conjoined_parts(schema, each):
                if inner.pointer not in seen:
                    seen.add(inner.pointer)
                    pending.append(inner)
            if not VALIDATION_KEYWORDS.isdisjoint(schema):
                nodes.append(NormalizedNode(schema, each.pointer, each.pointer))
        return [
            node
            for node in nodes
            if node.schema is INVALID_SCHEMA or not VALIDATION_KEYWORDS & node.schema.keys() <= _FLATTENED
        ]

    def _conjoined_parts(self, schema: JsonObject, part: SchemaPart) -> list[SchemaPart]:
        found = [
            SchemaPart(each, part.pointer_to("allOf", index)) for index, each in enumerate(schema.get("allOf", ()))
        ]
        if schema is not INVALID_SCHEMA and "$ref" in schema:
            found.append(self.resolve(schema["$ref"]) or SchemaPart(None, part.pointer_to("$ref")))
        return found

    def resolve(self, reference: str) -> SchemaPart | None:
        """What a reference refers to, if that is in the document."""
        path = self._references.resolve(reference)
        return (
            None
            if path is None
            else SchemaPart(self._references.value_at(path), "".join(f"/{escape_pointer(each)}" for each in path))
        )

    def normalized(self, schema: Json) -> JsonObject:
        """A schema object in the newest draft; `true` and `false` become objects too."""
        if type(schema) is dict:
            if self.draft == "draft-07" and "$ref" in schema:  # where nothing beside $ref counts
                schema = {"$ref": schema["$ref"]}
            return schema if is_current(schema, self.draft) else upgrade(schema, self.draft, _ignore)
        return FALSE_SCHEMA if schema is False else {} if schema is True else INVALID_SCHEMA

    def _node_members(self, node: NormalizedNode, alternatives: bool) -> MemberDeclarations:
        found = self._declared_members.get((node.key, alternatives))
        if found is None:
            self._declared_members[node.key, alternatives] = MemberDeclarations()  # for what refers to itself
            found = self._declared_members[node.key, alternatives] = self._find_members(node, alternatives)
        return found

    def _find_members(self, node: NormalizedNode, alternatives: bool) -> MemberDeclarations:
        schema = node.schema
        own = MemberDeclarations(
            frozenset(schema.get("properties", ())) | frozenset(schema.get("required", ())),
            frozenset(schema.get("patternProperties", ())),
            any(is_rest_schema(schema.get(key)) for key in ("additionalProperties", "unevaluatedProperties")),
            "properties" in schema or "patternProperties" in schema,
        )
        beside = self._in_place_nodes(node, alternatives)
        if not beside:
            return own
        inner = self.declared_members(beside, alternatives=alternatives)
        return MemberDeclarations(
            own.names | inner.names,
            own.patterns | inner.patterns,
            own.has_rest_schema or inner.has_rest_schema,
            own.lists_members or inner.lists_members,
        )

    def _in_place_nodes(self, node: NormalizedNode, alternatives: bool) -> list[NormalizedNode]:
        """What else may judge the same value: alternatives, conditions, what some members bring with them."""
        schema = node.schema
        if _IN_PLACE.isdisjoint(schema):
            return []
        parts = [node.part(key) for key in _IN_PLACE_ONE if key in schema]
        parts += [node.part("dependentSchemas", name) for name in schema.get("dependentSchemas", ())]
        if alternatives:
            parts += [node.part(key, index) for key in _IN_PLACE_LIST for index in range(len(schema.get(key, ())))]
        return [each for part in parts for each in self.conjuncts(part)]


def is_rest_schema(schema: Json) -> bool:
    """Whether a schema is more than a switch: it says what other members are like, so that they are promised."""
    return isinstance(schema, dict) and bool(schema)


def _ignore(keyword: str, reason: str, widens: bool) -> None:
    pass
