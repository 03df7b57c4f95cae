"""What a target dialect cannot say, laid into an open place of its document, and found again there."""

import msgspec

from toolhall.dialects.catalog import Catalog
from toolhall.model.json import Json, JsonObject
from toolhall.model.patch import Change

VERSION = 2


class Carrier(msgspec.Struct, frozen=True, omit_defaults=True, rename={"source": "from"}):
    """The changes that turn the way back into the original: of the whole, and of each tool in this document."""

    v: int
    source: str
    group: list[Change] = []
    items: dict[str, list[Change]] = {}  # by the name that the tool has in this document's toolkit
    at: int = 0  # which of the original's tools is the first one here
    of: int = 1  # how many the original had
    bare: bool = False  # the original had no wrapper around it


def load(document: JsonObject, catalog: Catalog, carrier: Carrier) -> JsonObject:
    """The document with a carrier in it, if that has anything to say."""
    if not (carrier.group or carrier.items or carrier.of > 1 or carrier.bare):
        return document
    return placed(document, catalog.carrier, msgspec.to_builtins(carrier))


def unload(document: JsonObject, catalog: Catalog) -> tuple[JsonObject, Carrier | None]:
    """The document without its carrier, and the carrier, if there is one that we can read."""
    found: Json = document
    for key in catalog.carrier:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return document, None
    try:
        carrier = msgspec.convert(found, Carrier)
    except msgspec.ValidationError:
        return document, None
    return (document, None) if carrier.v != VERSION else (unladen(document, catalog.carrier), carrier)


def unladen(document: JsonObject, place: tuple[str, ...]) -> JsonObject:
    """A document without what lies where a carrier may lie, and without a holder that is empty then."""
    key, *rest = place
    if key not in document:
        return document
    inner = document[key]
    if rest and (not isinstance(inner, dict) or (inner and rest[0] not in inner)):
        return document
    left = unladen(inner, tuple(rest)) if rest else None
    if left:
        return document if left is inner else {**document, key: left}
    return {name: value for name, value in document.items() if name != key}


def placed(document: JsonObject, place: tuple[str, ...], value: Json) -> JsonObject:
    """A document like this one with a value at a place, however deep; holders are made where there are none."""
    key, *rest = place
    if rest:
        inner = document.get(key)
        value = placed(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**document, key: value}
