"""Any definition goes to any dialect and comes back exactly, and every loss on the way is listed."""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.definitions import DOCUMENTS, MCP, NAMES, schemas
from toolhall.dialects.carrier import unload
from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import CATALOGS
from toolhall.dialects.convert import join, restore, split, translate
from toolhall.dialects.converter import Converter
from toolhall.model.json import encode

PAIRS = list(itertools.permutations([name for name in DOCUMENTS if name != "function"], 2))
each_pair = pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])


def exactly(value: Any) -> bytes:
    """1, 1.0 and true are three values; the order of members is none."""
    return msgspec.json.encode(value, order="deterministic")


def converted(given: list[Any], target: str, source: str) -> list[Any]:
    converter = Converter(target, source)
    parts = [part for index, each in enumerate(given) for part in converter.feed(each, index)]
    return [document for part in [*parts, *converter.finish()] for document in part.documents]


@each_pair
@settings(max_examples=12)
@given(data=st.data())
def test_there_and_back(source: str, target: str, data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS[source])
    before = encode(document)
    there = converted([document], target, source)
    assert encode(document) == before, "the document belongs to whoever gave it"
    (back,) = converted(there, source, target)
    assert exactly(back) == exactly(document)


@each_pair
@settings(max_examples=12)
@given(data=st.data())
def test_what_is_lost_without_the_carrier_is_listed(source: str, target: str, data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS[source])
    written = translate(document, CATALOGS[source], CATALOGS[target])
    back = without_carriers(written.documents, CATALOGS[source], CATALOGS[target])
    listed = {loss.path for loss in written.losses}
    for path in listed:
        resolve(document, path)
    for path in missing(document, back, ""):
        assert any(path == each or path.startswith(f"{each}/") for each in listed), f"{path} is lost, and not listed"


def without_carriers(documents: list[Any], source: Catalog, target: Catalog) -> Any:
    """What comes back when somebody dropped the carriers; every document is valid without its own."""
    tools = [tool for document in documents for tool in target.read(unload(document, target)[0])]
    if not source.grouped:
        return source.write((tools[0],))
    parts = [split(source.write((tool,)), source) for tool in tools]
    whole = join(parts[0][0], [item for _, items in parts for item in items], source)[0]
    return whole


def missing(original: Any, back: Any, path: str) -> Iterator[str]:
    """Pointers to what the original says and the other does not; a hub document may have lost its wrapper too."""
    if isinstance(original, dict) and isinstance(back, dict):
        for key, value in original.items():
            place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key in back:
                yield from missing(value, back[key], place)
            elif not (path == "" and "tool" in back and key in back["tool"]):
                yield place
            else:
                yield from missing(value, back["tool"][key], place)
    elif isinstance(original, list) and isinstance(back, list) and len(original) == len(back):
        for index, (one, other) in enumerate(zip(original, back, strict=True)):
            yield from missing(one, other, f"{path}/{index}")
    elif exactly(original) != exactly(back):
        yield path


def resolve(document: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


@pytest.mark.parametrize("source", ["machine", "hub", "oxp", "mcp@2025-11-25"])
@settings(max_examples=40)
@given(data=st.data(), text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=9))
def test_an_edited_description_wins_over_the_carrier(source: str, data: st.DataObject, text: str) -> None:
    document = data.draw(DOCUMENTS[source])
    catalog, target = CATALOGS[source], CATALOGS["mcp@2026-07-28"]
    edited = [{**each, "description": text} for each in translate(document, catalog, target).documents]
    pieces = [restore(each, target, CATALOGS) for each in edited]
    for before, piece, each in zip(split(document, catalog)[1], pieces, edited, strict=True):
        if piece is None:  # nothing had to be carried
            tools = target.read(each)
            assert tools[0].description == text
            continue
        (item,) = piece.items
        if isinstance(before, dict):
            assert item["description"] == text
            assert exactly({**item, "description": 0}) == exactly({**before, "description": 0}), "the rest is restored"


@settings(max_examples=60)
@given(document=MCP, name=NAMES, schema=schemas(references=False))
def test_an_edited_type_wins_over_the_carrier(document: Any, name: str, schema: Any) -> None:
    document["inputSchema"].setdefault("properties", {})[name] = schema
    (machine,) = translate(document, CATALOGS["mcp@2026-07-28"], CATALOGS["machine"]).documents
    (parameter,) = (each for each in machine["capabilities"][0]["parameters"] if each["name"] == name)
    parameter["type"] = "string" if parameter["type"] == "boolean" else "boolean"
    (back,) = converted([machine], "mcp@2026-07-28", "machine")
    part = back["inputSchema"]["properties"][name]
    assert part["type"] == parameter["type"]
    assert part.keys() <= {"type", "description", "default"}, "nothing of the other type is left"
