"""Whatever is done to a line of the audit is found, and named by file, line and number; what was written comes back."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.stores.audit.audit_logs import lines, open_writer, record, verified, write_records
from toolhall.stores.audit.anchors import AuditFinding
from toolhall.stores.audit.hash_chain import WITNESS_FILE, read_line, segments_of
from toolhall.stores.audit.writer import Retention

RECORDS = 34


class Place(NamedTuple):
    """A line of the log."""

    segment: Path
    row: int
    number: int


class Made:
    """A log of several segments, which an example spoils and gets back as it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_records(folder, RECORDS)
        self.segments = segments_of(folder / "1")
        self.content = {segment: segment.read_bytes() for segment in self.segments}
        self.places = [
            Place(segment, index, line.number)
            for segment, text in self.content.items()
            for index, raw in enumerate(text.splitlines())
            if (line := read_line(raw))
        ]

    def found(self, segment: Path, text: bytes, *, witnessed: bool = True) -> list[AuditFinding]:
        """What verifying says of a segment with another content."""
        nothing = self.folder.parent / "nothing"
        nothing.touch()
        segment.write_bytes(text)
        try:
            return verified(self.folder, witness=None if witnessed else nothing).findings
        finally:
            segment.write_bytes(self.content[segment])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = Made(tmp_path_factory.mktemp("audit") / "audit")
    assert len(made.segments) > 2
    assert verified(made.folder).good
    return made


@given(st.data())
@settings(max_examples=examples(120))
@pytest.mark.parametrize("witnessed", [True, False], ids=["witnessed", "alone"])
def test_one_flipped_bit_is_found_and_named(made: Made, witnessed: bool, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(made.segments))
    text = bytearray(made.content[segment])
    # The end of the very last line is all that tells it from one that a crash cut off.
    last = segment == made.segments[-1] and not witnessed
    at = data.draw(st.integers(0, len(text) - (2 if last else 1)))
    text[at] ^= 1 << data.draw(st.integers(0, 7))
    index = made.content[segment].count(b"\n", 0, at)
    (number,) = (place.number for place in made.places if (place.segment, place.row) == (segment, index))
    first = made.found(segment, bytes(text), witnessed=witnessed)[0]
    assert first.number == number
    assert first.file == f"1/{segment.name}"
    assert first.line == index + 1
    assert first.what in ("changed", "cut off", "rollback")


@given(st.data())
@settings(max_examples=examples(40))
def test_a_line_that_is_gone_is_found_and_named(made: Made, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(made.places))
    raw = made.content[place.segment].splitlines(keepends=True)
    first = made.found(place.segment, b"".join(raw[: place.row] + raw[place.row + 1 :]))[0]
    assert first.number == place.number
    newest = place == made.places[-1]
    assert first.what == ("rollback" if newest else "missing")


@given(st.data())
@settings(max_examples=examples(40))
def test_lines_that_changed_places_are_found_and_named(made: Made, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(made.segments))
    raw = made.content[segment].splitlines(keepends=True)
    one, other = sorted(data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=2, max_size=2, unique=True)))
    (number,) = (place.number for place in made.places if (place.segment, place.row) == (segment, one))
    raw[one], raw[other] = raw[other], raw[one]
    first = made.found(segment, b"".join(raw))[0]
    assert (first.what, first.number) == ("moved", number)


@given(st.data())
@settings(max_examples=examples(40))
def test_a_line_that_stands_there_twice_is_found_and_named(made: Made, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(made.places))
    raw = made.content[place.segment].splitlines(keepends=True)
    raw.insert(place.row + 1, raw[place.row])
    first = made.found(place.segment, b"".join(raw), witnessed=False)[0]
    assert (first.what, first.number) == ("moved", place.number + 1)


@given(st.data())
@settings(max_examples=examples(40))
def test_a_segment_that_was_cut_off_is_found_and_named(made: Made, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(made.segments))
    text = made.content[segment]
    at = data.draw(st.integers(0, len(text) - 1))
    (number,) = (
        place.number for place in made.places if (place.segment, place.row) == (segment, text.count(b"\n", 0, at))
    )
    first = made.found(segment, text[:at])[0]
    assert first.number == number
    assert first.what in ("missing", "cut off", "rollback", "changed")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_segment_that_is_gone_is_found(made: Made, which: int, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    shutil.copytree(made.folder, folder)
    (folder / "1" / made.segments[which].name).unlink()
    assert [each.what for each in verified(folder).findings] in (["missing"], ["rollback"])


texts = st.text(st.characters(codec="utf-8"), max_size=40)


@given(st.lists(st.tuples(texts, texts, st.integers(0, 10)), max_size=30), st.integers(1, 9))
@settings(max_examples=30)
def test_what_was_written_comes_back(said: list[tuple[str, str, int]], sign: int) -> None:
    records = [
        record(number, caller=caller, tool=tool, level=level) for number, (caller, tool, level) in enumerate(said)
    ]
    with TemporaryDirectory() as name:
        folder = Path(name)
        made = open_writer(folder, Retention(sign_records=sign, segment_bytes=1_000))
        made.write(records)
        made.close()
        assert [line.record for line in lines(folder) if line.record] == records
        report = verified(folder)
        assert report.good
        assert report.records == len(records)
        assert (folder / WITNESS_FILE).exists()
