"""Properties of edits: an edit of a converted document wins over its loss record, or is listed as a loss."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.corpora.journeys import converted, documents, exactly
from tests.properties.definitions import DOCUMENTS, PLAIN_NAMES, VALUES
from toolhall.dialects.catalogs import CATALOGS
from toolhall.dialects.convert.translate import detach_loss_record, read_source, translate
from toolhall.dialects.findings import BadDocument

SOURCES = ["machine", "hub", "oxp", "mcp@2025-11-25"]
TARGETS = ["machine", "hub", "oxp", "mcp@2026-07-28"]
PAIRS = [(source, target) for source in SOURCES for target in TARGETS if source != target]
_NOTHING: tuple[Any, ...] = (None, [], {})
each_pair = pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])


@each_pair
@settings(max_examples=25, derandomize=True)
@given(data=st.data(), text=PLAIN_NAMES, value=VALUES)
def test_conversion_edit_is_kept_or_listed_as_a_loss(
    source: str, target: str, data: st.DataObject, text: str, value: Any
) -> None:
    there = translate(read_source(data.draw(DOCUMENTS[source]), CATALOGS[source]), CATALOGS[target]).documents
    edited = there[0]
    carrier = CATALOGS[target].loss_record_path
    places = [place for place in _places(edited, ()) if place[: len(carrier)] != carrier]
    place = data.draw(st.sampled_from(places))
    holder = edited
    for key in place[:-1]:
        holder = holder[key]
    new = text if isinstance(holder[place[-1]], str) else value
    assume(exactly(holder[place[-1]]) != exactly(new))
    assume(new not in _NOTHING or holder[place[-1]] not in _NOTHING)  # null, [] and {} all say that there is nothing
    holder[place[-1]] = new
    try:
        parts = converted(there, source, target)
        again = documents(converted(documents(parts), target, source))
    except BadDocument:  # the edit made it a bad one, and that was said
        return
    listed = [loss.path for part in parts if part.index == 0 for loss in part.losses]
    pointer = "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in place)
    mentioned = any(f"{pointer}/".startswith(f"{path}/") or path.startswith(pointer) for path in listed)
    assert mentioned or any(part.refused for part in parts) or _found(again, place, new)


@each_pair
@settings(max_examples=10, derandomize=True)
@given(data=st.data())
def test_conversion_of_an_unedited_document_lists_no_losses(source: str, target: str, data: st.DataObject) -> None:
    there = translate(read_source(data.draw(DOCUMENTS[source]), CATALOGS[source]), CATALOGS[target]).documents
    assume(all(detach_loss_record(each, CATALOGS[target])[1] for each in there))
    assert not [loss for part in converted(there, source, target) for loss in part.losses]


def _places(value: Any, place: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Where a document says anything: names, versions, descriptions, parts of schemas."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    if not keys:
        return [place] if place else []
    return [each for key in keys for each in _places(value[key], (*place, key))]


def _found(documents_: list[Any], place: tuple[Any, ...], value: Any) -> bool:
    """Whether one of the documents says this in that place."""
    for found in documents_:
        for key in place:
            inside = isinstance(found, dict) and key in found
            inside |= isinstance(found, list) and isinstance(key, int) and key < len(found)
            if not inside:
                break
            found = found[key]  # noqa: PLW2901
        else:
            if _holds(found, value):
                return True
    return False


def _holds(found: Any, value: Any) -> bool:
    """Whether everything that was written is there; a dialect may have to add a description to it."""
    if isinstance(value, dict) and isinstance(found, dict):
        return all(key in found and _holds(found[key], part) for key, part in value.items())
    return bool(exactly(found) == exactly(value))
