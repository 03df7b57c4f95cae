"""Audit verification finds any tampering and locates it by file, line and number; the log returns what was written."""

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


class TamperableLog:
    """An audit log of several segments; an example changes one, and it is restored afterwards."""

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

    def findings_with(self, segment: Path, text: bytes, *, witnessed: bool = True) -> list[AuditFinding]:
        """What verifying says of a segment with another content."""
        nothing = self.folder.parent / "nothing"
        nothing.touch()
        segment.write_bytes(text)
        try:
            return verified(self.folder, witness=None if witnessed else nothing).findings
        finally:
            segment.write_bytes(self.content[segment])


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> TamperableLog:
    audit_log = TamperableLog(tmp_path_factory.mktemp("audit") / "audit")
    assert len(audit_log.segments) > 2
    assert verified(audit_log.folder).good
    return audit_log


@given(st.data())
@settings(max_examples=examples(120))
@pytest.mark.parametrize("witnessed", [True, False], ids=["witnessed", "alone"])
def test_audit_verification_flipped_bit_is_found_and_located(
    audit_log: TamperableLog, witnessed: bool, data: st.DataObject
) -> None:
    segment = data.draw(st.sampled_from(audit_log.segments))
    text = bytearray(audit_log.content[segment])
    # The end of the very last line is all that tells it from one that a crash cut off.
    last = segment == audit_log.segments[-1] and not witnessed
    at = data.draw(st.integers(0, len(text) - (2 if last else 1)))
    text[at] ^= 1 << data.draw(st.integers(0, 7))
    index = audit_log.content[segment].count(b"\n", 0, at)
    (number,) = (place.number for place in audit_log.places if (place.segment, place.row) == (segment, index))
    first = audit_log.findings_with(segment, bytes(text), witnessed=witnessed)[0]
    assert first.number == number
    assert first.file == f"1/{segment.name}"
    assert first.line == index + 1
    assert first.what in ("changed", "cut off", "rollback")


@given(st.data())
@settings(max_examples=examples(40))
def test_audit_verification_missing_line_is_found_and_located(audit_log: TamperableLog, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(audit_log.places))
    raw = audit_log.content[place.segment].splitlines(keepends=True)
    first = audit_log.findings_with(place.segment, b"".join(raw[: place.row] + raw[place.row + 1 :]))[0]
    assert first.number == place.number
    newest = place == audit_log.places[-1]
    assert first.what == ("rollback" if newest else "missing")


@given(st.data())
@settings(max_examples=examples(40))
def test_audit_verification_swapped_lines_are_found_and_located(audit_log: TamperableLog, data: st.DataObject) -> None:
    segment = data.draw(st.sampled_from(audit_log.segments))
    raw = audit_log.content[segment].splitlines(keepends=True)
    one, other = sorted(data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=2, max_size=2, unique=True)))
    (number,) = (place.number for place in audit_log.places if (place.segment, place.row) == (segment, one))
    raw[one], raw[other] = raw[other], raw[one]
    first = audit_log.findings_with(segment, b"".join(raw))[0]
    assert (first.what, first.number) == ("moved", number)


@given(st.data())
@settings(max_examples=examples(40))
def test_audit_verification_duplicated_line_is_found_and_located(audit_log: TamperableLog, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(audit_log.places))
    raw = audit_log.content[place.segment].splitlines(keepends=True)
    raw.insert(place.row + 1, raw[place.row])
    first = audit_log.findings_with(place.segment, b"".join(raw), witnessed=False)[0]
    assert (first.what, first.number) == ("moved", place.number + 1)


@given(st.data())
@settings(max_examples=examples(40))
def test_audit_verification_truncated_segment_is_found_and_located(
    audit_log: TamperableLog, data: st.DataObject
) -> None:
    segment = data.draw(st.sampled_from(audit_log.segments))
    text = audit_log.content[segment]
    at = data.draw(st.integers(0, len(text) - 1))
    (number,) = (
        place.number for place in audit_log.places if (place.segment, place.row) == (segment, text.count(b"\n", 0, at))
    )
    first = audit_log.findings_with(segment, text[:at])[0]
    assert first.number == number
    assert first.what in ("missing", "cut off", "rollback", "changed")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_audit_verification_missing_segment_is_found(audit_log: TamperableLog, which: int, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    shutil.copytree(audit_log.folder, folder)
    (folder / "1" / audit_log.segments[which].name).unlink()
    assert [each.what for each in verified(folder).findings] in (["missing"], ["rollback"])


texts = st.text(st.characters(codec="utf-8"), max_size=40)


@given(st.lists(st.tuples(texts, texts, st.integers(0, 10)), max_size=30), st.integers(1, 9))
@settings(max_examples=30)
def test_audit_log_records_are_read_back_as_written(said: list[tuple[str, str, int]], sign: int) -> None:
    records = [
        record(number, caller=caller, tool=tool, level=level) for number, (caller, tool, level) in enumerate(said)
    ]
    with TemporaryDirectory() as name:
        folder = Path(name)
        audit_log = open_writer(folder, Retention(sign_records=sign, segment_bytes=1_000))
        audit_log.write(records)
        audit_log.close()
        assert [line.record for line in lines(folder) if line.record] == records
        report = verified(folder)
        assert report.good
        assert report.records == len(records)
        assert (folder / WITNESS_FILE).exists()
