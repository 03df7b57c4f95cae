"""What a target dialect cannot say, laid into an open place of its document, and found again there."""

import copy

import msgspec

from toolhall.dialects.catalog import Catalog
from toolhall.dialects.patch import Change
from toolhall.model.json import JsonObject

VERSION = 1


class Carrier(msgspec.Struct, frozen=True, omit_defaults=True, rename={"source": "from"}):
    """The changes that turn the way back into the original: of the whole, and of each tool in this document."""

    source: str
    group: list[Change] = []
    items: list[list[Change]] = []
    at: int = 0  # which of the original's tools is the first one here
    of: int = 1  # how many the original had
    v: int = VERSION


def load(document: JsonObject, catalog: Catalog, carrier: Carrier) -> None:
    """Lay a carrier into a document, if it has anything to say."""
    if not (carrier.group or any(carrier.items) or carrier.of > 1):
        return
    holder = document
    for key in catalog.carrier[:-1]:
        holder = holder.setdefault(key, {})
    holder[catalog.carrier[-1]] = msgspec.to_builtins(carrier)


def unload(document: JsonObject, catalog: Catalog) -> tuple[JsonObject, Carrier | None]:
    """The document without its carrier, and the carrier, if there is one that we can read."""
    place = catalog.carrier
    holders = [document]
    for key in place[:-1]:
        inner = holders[-1].get(key)
        if not isinstance(inner, dict):
            return document, None
        holders.append(inner)
    try:
        carrier = msgspec.convert(holders[-1].get(place[-1]), Carrier)
    except msgspec.ValidationError:
        return document, None
    if carrier.v != VERSION:
        return document, None
    bare = copy.deepcopy(document)
    _remove(bare, place)
    return bare, carrier


def _remove(document: JsonObject, place: tuple[str, ...]) -> None:
    """Take the carrier out, and every holder that was made for it alone."""
    holder = document
    chain = [holder := holder[key] for key in place[:-1]]
    parents = [document, *chain]
    for parent, key in zip(reversed(parents), reversed(place), strict=True):
        del parent[key]
        if parent:
            return
