"""Schemas reshaped for targets that accept less: references inlined, and every loss reported where it happens."""

import re
from collections.abc import Callable

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.schema.drafts import draft_in, is_sound, renewed
from toolhall.schema.keywords import ANNOTATIONS, HOLDERS, LIST, ONE, SWITCHES
from toolhall.schema.merge import both
from toolhall.schema.place import Path, Place
from toolhall.schema.references import DEFINITIONS, REFERENCES, References
from toolhall.schema.sentences import described

# References are followed until the result would be too large; a few lines of schema can ask for gigabytes.
MAX_INLINED = 500
MAX_PARTS = 5_000
MAX_DEPTH = 60
_NAMING = frozenset((*REFERENCES, *DEFINITIONS))


class Lost(msgspec.Struct, frozen=True):
    """A keyword that the target cannot say.

    It `widens` if values that were refused would be accepted without it, and `narrows` if values that were accepted
    cannot be sent any more.
    """

    path: str
    keyword: str
    reason: str
    widens: bool = True
    narrows: bool = False


class Target(msgspec.Struct, frozen=True):
    """How a target wants a schema: what it makes of one schema object, and whether it follows references."""

    name: str
    node: Callable[["Reshaping", JsonObject, Place], JsonObject]
    root: Callable[["Reshaping", JsonObject, Place], tuple[JsonObject, Place]] | None = None
    recursion: bool = False


class Reshaped(msgspec.Struct, frozen=True):
    """A schema for a target, sentences for the description of the whole, and what is lost."""

    schema: JsonObject
    notes: list[str]
    lost: list[Lost]


class Reshaping:
    """One schema on its way to a target; collects what is lost."""

    def __init__(self, root: JsonObject, target: Target, base: str = "#") -> None:
        self.root = root
        self.target = target
        self.notes: list[str] = []
        self.lost: dict[tuple[str, str], Lost] = {}
        self._base = base
        self._draft = draft_in(root)
        self._references = References(root)
        self._renewed: dict[int, JsonObject] = {}
        self._inlined = 0
        self._parts = 0
        self._names: dict[Path, str] = {}

    def shape(self, schema: Json, place: Place) -> JsonObject:
        """A schema as the target wants it."""
        self._parts += 1
        schema = self.sound(schema, place)
        if "$ref" in schema:
            schema, place = self.opened(schema, place)
        if place.depth > MAX_DEPTH:
            self.lose(place, "", "nested too deeply to be described")
            schema = {}
        return self.target.node(self, schema, place)

    def shape_root(self) -> JsonObject:
        """The whole schema, with the definitions that refer to themselves."""
        schema, place = self.sound(self.root, Place()), Place()
        if self.target.root is not None:
            schema, place = self.target.root(self, schema, place)
            shaped = self.target.node(self, schema, place)
        else:
            shaped = self.shape(schema, place)
        definitions = self._definitions()
        return {**shaped, "$defs": definitions} if definitions else shaped

    def sound(self, schema: Json, place: Place) -> JsonObject:
        """A schema object in the newest draft; `true` and `false` become objects too."""
        if type(schema) is dict:
            return schema if is_sound(schema, self._draft) else self._renew(schema, place)
        if schema is False:
            return {"not": {}}
        if schema is not True:
            self.lose(place, "", "a schema is an object, true or false")
        return {}

    def opened(self, schema: Json, place: Place) -> tuple[JsonObject, Place]:
        """A schema with its references followed, and where that stands.

        One that recurs stays, as the target will see it, or anything is allowed in its place.
        """
        schema = self.sound(schema, place)
        while "$ref" in schema:
            rest = {key: part for key, part in schema.items() if key != "$ref"}
            found = self._references.find(schema["$ref"])
            if found is None:
                self.lose(place, "$ref", "this leads to nothing inside the schema; anything is allowed here")
                return rest, place
            if self._ends(found, place):
                return self._ended(found, rest, place), place
            self._inlined += 1
            place = place.followed(found)
            schema = self._beside(self.sound(self._references.at(found), place), rest)
        return schema, place

    def peek(self, schema: Json) -> JsonObject:
        """What a schema says at its own level, references followed; nothing is counted or reported."""
        for _ in range(MAX_DEPTH):
            schema = renewed(schema, self._draft, _ignore) if isinstance(schema, dict) else {}
            found = self._references.find(schema["$ref"]) if "$ref" in schema else None
            if found is None:
                break
            schema = self._references.at(found)
        return schema if isinstance(schema, dict) else {}

    def lose(self, place: Place, keyword: str, reason: str, *, widens: bool = True, narrows: bool = False) -> None:
        """Report a keyword (or the schema object itself, by '') that the target does not get."""
        pointer = place.pointer(self.root, *([keyword] if keyword else []))
        self.lost.setdefault((pointer, reason), Lost(pointer, keyword, reason, widens, narrows))

    def note(self, schema: JsonObject, place: Place, notes: list[str]) -> JsonObject:
        """The schema with sentences in its description; those on the whole are kept for the tool's own."""
        if () in place.paths:
            self.notes.extend(note for note in notes if note not in self.notes)
            return schema
        return described(schema, notes)

    def _renew(self, schema: JsonObject, place: Place) -> JsonObject:
        """A schema object in the newest draft, once: what it says then would mean nothing in the old one."""
        if id(schema) not in self._renewed:
            new = renewed(schema, self._draft, lambda key, reason, widens: self.lose(place, key, reason, widens=widens))
            self._renewed[id(new)] = new
            return new
        return schema

    def _ends(self, found: Path, place: Place) -> bool:
        """Whether a reference is not followed: it recurs, or there has been enough."""
        enough = self._inlined >= MAX_INLINED or self._parts >= MAX_PARTS or place.depth > MAX_DEPTH
        return enough or found in place.above

    def _beside(self, target: JsonObject, rest: JsonObject) -> JsonObject:
        """What a reference refers to, together with what stands beside it."""
        notes = {key: part for key, part in rest.items() if key in ANNOTATIONS}
        if len(notes) == len(rest) or self._draft == "draft-07":  # where nothing beside $ref counts
            return {**target, **notes}
        constraints = {key: part for key, part in rest.items() if key not in notes}
        merged = both({**target, **notes}, constraints)
        return {"allOf": [target, rest]} if merged is None else merged

    def _ended(self, found: Path, rest: JsonObject, place: Place) -> JsonObject:
        """What stands for a reference that is not followed."""
        if self.target.recursion:
            return {**rest, "$ref": self._name(found)}
        self.lose(place, "$ref", f"{self.target.name} gets no references; this one is not followed")
        return {**_outline(self.peek(self._references.at(found))), **rest}

    def _name(self, found: Path) -> str:
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
            made[name] = self.shape(self._references.at(path), Place((path,), frozenset({(), path})))
        return made


def reshape(schema: JsonObject, target: Target, base: str = "#") -> Reshaped:
    """A schema for a target; `base` is where it will stand in its document, for references that stay."""
    reshaping = Reshaping(schema, target, base)
    shaped = reshaping.shape_root()
    return Reshaped(shaped, reshaping.notes, list(reshaping.lost.values()))


def whole(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    """A schema object as it is, for targets that know every keyword; only what it holds is looked at."""
    if HOLDERS.isdisjoint(schema):
        return schema
    shape = reshaping.shape
    shaped: JsonObject = {}
    for key, part in schema.items():
        if key not in HOLDERS or (key in SWITCHES and part in (True, False)):
            shaped[key] = part
        elif key in ONE:
            shaped[key] = shape(part, place.at(key))
        elif key in LIST:
            shaped[key] = [shape(each, place.at(key, str(index))) for index, each in enumerate(part)]
        else:
            shaped[key] = {name: shape(each, place.at(key, name)) for name, each in part.items()}
    return shaped


PLAIN = Target("a plain schema", whole)


def without_references(schema: JsonObject) -> JsonObject:
    """The same schema with local references replaced by what they refer to; where one recurs, anything is allowed."""
    return reshape(schema, PLAIN).schema if has_references(schema) else schema


def has_references(schema: Json) -> bool:
    """Whether a schema refers to, or defines, other schemas by name."""
    if not isinstance(schema, dict):
        return False
    if not _NAMING.isdisjoint(schema):
        return True
    for key in HOLDERS.intersection(schema):
        part = schema[key]
        inner = [part] if key in ONE and not isinstance(part, list) else part
        if isinstance(inner, dict):
            inner = list(inner.values())
        if isinstance(inner, list) and any(map(has_references, inner)):
            return True
    return False


def _ignore(keyword: str, reason: str, widens: bool) -> None:
    pass


def _outline(target: JsonObject) -> JsonObject:
    """What can be said of a schema without looking inside."""
    return {key: target[key] for key in ("type", "title", "description") if isinstance(target.get(key), str)}
