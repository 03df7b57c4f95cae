"""One of the two schemas: its parts opened up, so that references and `allOf` need not be thought of any more."""

from collections.abc import Iterable

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.schema.drafts import draft_in, is_sound, renewed
from toolhall.schema.keywords import HOLDERS, TYPE_OF
from toolhall.schema.references import References
from toolhall.schema.walk import escape

# Keywords that judge a value; how a text is written (`format`, encodings) is promised too, though nobody checks it.
JUDGING = frozenset({"type", "enum", "const", "$ref"}) | HOLDERS | TYPE_OF.keys()
NOTHING: JsonObject = {"not": {}}
BROKEN: JsonObject = {"$ref": None}  # a reference that leads nowhere, or what is no schema at all
_IN_PLACE_ONE = ("if", "then", "else")
_IN_PLACE_LIST = ("anyOf", "oneOf")
_IN_PLACE = frozenset({*_IN_PLACE_ONE, *_IN_PLACE_LIST, "dependentSchemas"})
_OPENED = frozenset({"$ref", "allOf"})
_encode = msgspec.json.Encoder(order="deterministic").encode


class Part(msgspec.Struct, frozen=True):
    """A schema as it stands in a document, and the pointer to it."""

    schema: Json
    pointer: str

    def at(self, *parts: str | int) -> str:
        """The pointer to something inside."""
        return self.pointer + "".join(f"/{escape(str(part))}" for part in parts)


class Node(msgspec.Struct, frozen=True):
    """A schema object in the newest draft that a value must fit; `key` tells it from others made of the same one."""

    schema: JsonObject
    pointer: str
    key: str

    def part(self, *parts: str | int) -> Part:
        """A schema that this one holds."""
        found: Json = self.schema
        for each in parts:
            found = found[each]
        return Part(found, self.at(*parts))

    def at(self, *parts: str | int) -> str:
        """The pointer to something inside."""
        return self.pointer + "".join(f"/{escape(str(part))}" for part in parts)

    def without(self, *keys: str) -> "Node":
        """The same without some of its keywords."""
        kept = {key: part for key, part in self.schema.items() if key not in keys}
        return Node(kept, self.pointer, f"{self.key} -{keys[0]}")


Nodes = tuple[Node, ...]


class Declared(msgspec.Struct, frozen=True):
    """The members that schemas speak of: by name, by pattern, or all others by a schema of their own."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    mapped: bool = False
    spoken: bool = False  # there is a list of members, if only an empty one


class Scope(msgspec.Struct, frozen=True):
    """All that speaks of a value's members, whether it applies or not; `number` is the same for the same nodes."""

    nodes: Nodes
    declared: Declared
    number: int


class Given(msgspec.Struct, frozen=True):
    """What a value must fit, and what speaks of its members."""

    nodes: Nodes
    scope: Scope


class Document:
    """A schema and what was found out about its parts."""

    def __init__(self, root: Json) -> None:
        self.root = root
        known = root if isinstance(root, dict) else {}
        self.draft = draft_in(known)
        self._references = References(known)
        self._opened: dict[str, Nodes] = {}
        self._declared: dict[tuple[str, bool], Declared] = {}
        self._scopes: dict[tuple[str, ...], Scope] = {}
        self.inner_scopes: dict[tuple[int, str, str], Scope] = {}
        self._texts: dict[str, bytes] = {}

    def opened(self, part: Part) -> Nodes:
        """All schema objects that a value must fit; none where anything goes."""
        found = self._opened.get(part.pointer)
        if found is None:
            found = self._opened[part.pointer] = tuple(self._open(part))
        return found

    def conjoined(self, node: Node) -> list[Node]:
        """A node, and all that it demands beside."""
        return self._open(Part(node.schema, node.pointer))

    def declared(self, nodes: Iterable[Node], *, choices: bool = True) -> Declared:
        """The members that these speak of, whatever else decides whether they apply; without `choices`, always."""
        found = [self._declared_in(node, choices) for node in nodes]
        if len(found) == 1:
            return found[0]
        return Declared(
            frozenset().union(*(each.names for each in found)),
            frozenset().union(*(each.patterns for each in found)),
            any(each.mapped for each in found),
            any(each.spoken for each in found),
        )

    def scope(self, nodes: Nodes) -> Scope:
        """Everything that may judge the value that these judge."""
        keys = tuple([node.key for node in nodes])
        found = self._scopes.get(keys)
        if found is None:
            found = Scope(self._around(nodes), self.declared(nodes), len(self._scopes))
            self._scopes[keys] = found
        return found

    def _around(self, nodes: Nodes) -> Nodes:
        if all(_IN_PLACE.isdisjoint(node.schema) for node in nodes):
            return nodes
        found = {node.key: node for node in nodes}
        pending = list(nodes)
        for node in pending:  # it grows
            for each in self._beside(node, choices=True):
                if each.key not in found:
                    found[each.key] = each
                    pending.append(each)
        return tuple(found.values())

    def text(self, node: Node) -> bytes:
        """A node's own words, equal for equal ones; empty where they mean something only in this document."""
        found = self._texts.get(node.key)
        if found is None:
            encoded = _encode(node.schema)
            found = self._texts[node.key] = b"" if b'ef":' in encoded else encoded  # $ref, $dynamicRef, $recursiveRef
        return found

    def _open(self, part: Part) -> list[Node]:
        nodes: list[Node] = []
        pending, seen = [part], {part.pointer}
        for each in pending:  # it grows
            schema = self.sound(each.schema)
            for inner in self._conjoined(schema, each):
                if inner.pointer not in seen:
                    seen.add(inner.pointer)
                    pending.append(inner)
            if not JUDGING.isdisjoint(schema):
                nodes.append(Node(schema, each.pointer, each.pointer))
        return [node for node in nodes if node.schema is BROKEN or not JUDGING & node.schema.keys() <= _OPENED]

    def _conjoined(self, schema: JsonObject, part: Part) -> list[Part]:
        found = [Part(each, part.at("allOf", index)) for index, each in enumerate(schema.get("allOf", ()))]
        if schema is not BROKEN and "$ref" in schema:
            found.append(self.referred(schema["$ref"]) or Part(None, part.at("$ref")))
        return found

    def referred(self, reference: str) -> Part | None:
        """What a reference refers to, if that is in the document."""
        path = self._references.find(reference)
        return None if path is None else Part(self._references.at(path), "".join(f"/{escape(each)}" for each in path))

    def sound(self, schema: Json) -> JsonObject:
        """A schema object in the newest draft; `true` and `false` become objects too."""
        if type(schema) is dict:
            if self.draft == "draft-07" and "$ref" in schema:  # where nothing beside $ref counts
                schema = {"$ref": schema["$ref"]}
            return schema if is_sound(schema, self.draft) else renewed(schema, self.draft, _ignore)
        return NOTHING if schema is False else {} if schema is True else BROKEN

    def _declared_in(self, node: Node, choices: bool) -> Declared:
        found = self._declared.get((node.key, choices))
        if found is None:
            self._declared[node.key, choices] = Declared()  # for what refers to itself
            found = self._declared[node.key, choices] = self._look(node, choices)
        return found

    def _look(self, node: Node, choices: bool) -> Declared:
        schema = node.schema
        own = Declared(
            frozenset(schema.get("properties", ())) | frozenset(schema.get("required", ())),
            frozenset(schema.get("patternProperties", ())),
            any(says_something(schema.get(key)) for key in ("additionalProperties", "unevaluatedProperties")),
            "properties" in schema or "patternProperties" in schema,
        )
        beside = self._beside(node, choices)
        if not beside:
            return own
        inner = self.declared(beside, choices=choices)
        return Declared(
            own.names | inner.names,
            own.patterns | inner.patterns,
            own.mapped or inner.mapped,
            own.spoken or inner.spoken,
        )

    def _beside(self, node: Node, choices: bool) -> list[Node]:
        """What else may judge the same value: alternatives, conditions, what some members bring with them."""
        schema = node.schema
        if _IN_PLACE.isdisjoint(schema):
            return []
        parts = [node.part(key) for key in _IN_PLACE_ONE if key in schema]
        parts += [node.part("dependentSchemas", name) for name in schema.get("dependentSchemas", ())]
        if choices:
            parts += [node.part(key, index) for key in _IN_PLACE_LIST for index in range(len(schema.get(key, ())))]
        return [each for part in parts for each in self.opened(part)]


def says_something(schema: Json) -> bool:
    """Whether a schema is more than a switch: it says what other members are like, so that they are promised."""
    return isinstance(schema, dict) and bool(schema)


def _ignore(keyword: str, reason: str, widens: bool) -> None:
    pass
