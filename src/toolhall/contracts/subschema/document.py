"""A schema under comparison (SchemaDocument): its parts with references and `allOf` resolved into NormalizedNodes."""

from collections.abc import Iterable

import msgspec

from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.schema.keywords import (
    KEYWORD_TYPE,
    SUBSCHEMA_KEYWORDS,
    ReferenceResolver,
    declared_draft,
    is_current,
    upgrade,
)

# Keywords that constrain a value; `format` and encodings count too, though validators do not check them.
VALIDATION_KEYWORDS = frozenset({"type", "enum", "const", "$ref"}) | SUBSCHEMA_KEYWORDS | KEYWORD_TYPE.keys()
FALSE_SCHEMA: JsonObject = {"not": {}}
INVALID_SCHEMA: JsonObject = {"$ref": None}  # stands for an unresolvable reference, or for anything but a schema
# Keywords whose subschemas apply to the same value.
_IN_PLACE_ONE = ("if", "then", "else")
_IN_PLACE_LIST = ("anyOf", "oneOf")
_IN_PLACE = frozenset({*_IN_PLACE_ONE, *_IN_PLACE_LIST, "dependentSchemas"})
_FLATTENED = frozenset({"$ref", "allOf"})
_encode = msgspec.json.Encoder(order="deterministic").encode


class SchemaPart(msgspec.Struct, frozen=True):
    """A schema at a position of a document, and the pointer to it."""

    schema: Json
    pointer: str

    def pointer_to(self, *parts: str | int) -> str:
        """The pointer to something inside."""
        return self.pointer + "".join(f"/{escape_pointer(str(part))}" for part in parts)


class NormalizedNode(msgspec.Struct, frozen=True):
    """A schema object in the newest draft; `key` distinguishes it from others derived from the same object."""

    schema: JsonObject
    pointer: str
    key: str

    def part(self, *parts: str | int) -> SchemaPart:
        """A subschema."""
        schema: Json = self.schema
        for key in parts:
            schema = schema[key]
        return SchemaPart(schema, self.pointer_to(*parts))

    def pointer_to(self, *parts: str | int) -> str:
        """The pointer to something inside."""
        return self.pointer + "".join(f"/{escape_pointer(str(part))}" for part in parts)

    def without(self, *keys: str) -> "NormalizedNode":
        """The node without some of its keywords."""
        kept = {key: part for key, part in self.schema.items() if key not in keys}
        return NormalizedNode(kept, self.pointer, f"{self.key} -{keys[0]}")


Nodes = tuple[NormalizedNode, ...]


class MemberDeclarations(msgspec.Struct, frozen=True):
    """The members that schemas declare: by name, by pattern, or all others by a schema of their own."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    has_rest_schema: bool = False
    lists_members: bool = False  # has `properties` or `patternProperties`, even if empty


class MemberScope(msgspec.Struct, frozen=True):
    """All nodes that may declare a value's members, whether they apply or not; equal nodes have equal `number`."""

    nodes: Nodes
    declared: MemberDeclarations
    number: int


class Constraints(msgspec.Struct, frozen=True):
    """The nodes that a value must satisfy, and the scope of its members."""

    nodes: Nodes
    scope: MemberScope


class SchemaDocument:
    """A schema, and caches of what was derived from it."""

    def __init__(self, root: Json) -> None:
        self.root = root
        schema = root if isinstance(root, dict) else {}
        self.draft = declared_draft(schema)
        self._references = ReferenceResolver(schema)
        self._conjuncts: dict[str, Nodes] = {}
        self._declared_members: dict[tuple[str, bool], MemberDeclarations] = {}
        self._scopes: dict[tuple[str, ...], MemberScope] = {}
        self.inner_scopes: dict[tuple[int, str, str], MemberScope] = {}
        self._encoded: dict[str, bytes] = {}

    def conjuncts(self, part: SchemaPart) -> Nodes:
        """All schema objects that a value must satisfy; empty if anything is accepted."""
        nodes = self._conjuncts.get(part.pointer)
        if nodes is None:
            nodes = self._conjuncts[part.pointer] = tuple(self._find_conjuncts(part))
        return nodes

    def node_conjuncts(self, node: NormalizedNode) -> list[NormalizedNode]:
        """The node, and all other nodes that it requires."""
        return self._find_conjuncts(SchemaPart(node.schema, node.pointer))

    def declared_members(self, nodes: Iterable[NormalizedNode], *, alternatives: bool = True) -> MemberDeclarations:
        """The members that these nodes declare; without `alternatives`, those in `anyOf` and `oneOf` do not count."""
        declarations = [self._node_members(node, alternatives) for node in nodes]
        if len(declarations) == 1:
            return declarations[0]
        return MemberDeclarations(
            frozenset().union(*(each.names for each in declarations)),
            frozenset().union(*(each.patterns for each in declarations)),
            any(each.has_rest_schema for each in declarations),
            any(each.lists_members for each in declarations),
        )

    def scope(self, nodes: Nodes) -> MemberScope:
        """All nodes that may apply to the value that these nodes constrain."""
        keys = tuple([node.key for node in nodes])
        scope = self._scopes.get(keys)
        if scope is None:
            scope = MemberScope(self._with_in_place(nodes), self.declared_members(nodes), len(self._scopes))
            self._scopes[keys] = scope
        return scope

    def _with_in_place(self, nodes: Nodes) -> Nodes:
        if all(_IN_PLACE.isdisjoint(node.schema) for node in nodes):
            return nodes
        nodes_by_key = {node.key: node for node in nodes}
        pending = list(nodes)
        for node in pending:  # grows while it is iterated
            for inner in self._in_place_nodes(node, alternatives=True):
                if inner.key not in nodes_by_key:
                    nodes_by_key[inner.key] = inner
                    pending.append(inner)
        return tuple(nodes_by_key.values())

    def encoded(self, node: NormalizedNode) -> bytes:
        """The node as text, equal for equal nodes; empty if it has references, which depend on the document."""
        text = self._encoded.get(node.key)
        if text is None:
            encoded = _encode(node.schema)
            text = self._encoded[node.key] = b"" if b'ef":' in encoded else encoded  # $ref, $dynamicRef, $recursiveRef
        return text

    def _find_conjuncts(self, part: SchemaPart) -> list[NormalizedNode]:
        nodes: list[NormalizedNode] = []
        pending, seen = [part], {part.pointer}
        for current in pending:  # grows while it is iterated
            schema = self.normalized(current.schema)
            for inner in self._conjoined_parts(schema, current):
                if inner.pointer not in seen:
                    seen.add(inner.pointer)
                    pending.append(inner)
            if not VALIDATION_KEYWORDS.isdisjoint(schema):
                nodes.append(NormalizedNode(schema, current.pointer, current.pointer))
        return [
            node
            for node in nodes
            if node.schema is INVALID_SCHEMA or not VALIDATION_KEYWORDS & node.schema.keys() <= _FLATTENED
        ]

    def _conjoined_parts(self, schema: JsonObject, part: SchemaPart) -> list[SchemaPart]:
        parts = [
            SchemaPart(each, part.pointer_to("allOf", index)) for index, each in enumerate(schema.get("allOf", ()))
        ]
        if schema is not INVALID_SCHEMA and "$ref" in schema:
            parts.append(self.resolve(schema["$ref"]) or SchemaPart(None, part.pointer_to("$ref")))
        return parts

    def resolve(self, reference: str) -> SchemaPart | None:
        """The target of a reference; None if it is not in the document."""
        path = self._references.resolve(reference)
        return (
            None
            if path is None
            else SchemaPart(self._references.value_at(path), "".join(f"/{escape_pointer(each)}" for each in path))
        )

    def normalized(self, schema: Json) -> JsonObject:
        """A schema object in the newest draft; `true` and `false` become objects too."""
        if type(schema) is dict:
            if self.draft == "draft-07" and "$ref" in schema:  # draft 7 ignores the siblings of $ref
                schema = {"$ref": schema["$ref"]}
            return schema if is_current(schema, self.draft) else upgrade(schema, self.draft, _ignore)
        return FALSE_SCHEMA if schema is False else {} if schema is True else INVALID_SCHEMA

    def _node_members(self, node: NormalizedNode, alternatives: bool) -> MemberDeclarations:
        declarations = self._declared_members.get((node.key, alternatives))
        if declarations is None:
            self._declared_members[node.key, alternatives] = MemberDeclarations()  # ends the recursion of cycles
            declarations = self._declared_members[node.key, alternatives] = self._find_members(node, alternatives)
        return declarations

    def _find_members(self, node: NormalizedNode, alternatives: bool) -> MemberDeclarations:
        schema = node.schema
        own = MemberDeclarations(
            frozenset(schema.get("properties", ())) | frozenset(schema.get("required", ())),
            frozenset(schema.get("patternProperties", ())),
            any(is_rest_schema(schema.get(key)) for key in ("additionalProperties", "unevaluatedProperties")),
            "properties" in schema or "patternProperties" in schema,
        )
        in_place = self._in_place_nodes(node, alternatives)
        if not in_place:
            return own
        inner = self.declared_members(in_place, alternatives=alternatives)
        return MemberDeclarations(
            own.names | inner.names,
            own.patterns | inner.patterns,
            own.has_rest_schema or inner.has_rest_schema,
            own.lists_members or inner.lists_members,
        )

    def _in_place_nodes(self, node: NormalizedNode, alternatives: bool) -> list[NormalizedNode]:
        """Other nodes that may apply to the same value: alternatives, conditions, dependent schemas."""
        schema = node.schema
        if _IN_PLACE.isdisjoint(schema):
            return []
        parts = [node.part(key) for key in _IN_PLACE_ONE if key in schema]
        parts += [node.part("dependentSchemas", name) for name in schema.get("dependentSchemas", ())]
        if alternatives:
            parts += [node.part(key, index) for key in _IN_PLACE_LIST for index in range(len(schema.get(key, ())))]
        return [each for part in parts for each in self.conjuncts(part)]


def is_rest_schema(schema: Json) -> bool:
    """True if a schema describes all other members, and is not only `true` or `false`."""
    return isinstance(schema, dict) and bool(schema)


def _ignore(keyword: str, reason: str, widens: bool) -> None:
    pass
