"""Follows one log from its first line to its last, and stops at the first that is not as it was written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from toolhall.model.record import Record
from toolhall.stores.audit.findings import Finding, Report, Unfinished, What
from toolhall.stores.audit.lines import START, Chain, Line, Mark, read_line
from toolhall.stores.audit.segments import first_number, segments_of
from toolhall.stores.audit.signing import PublicKey, Purpose
from toolhall.stores.audit.strays import holds, misplaced, named
from toolhall.stores.audit.witness import WITNESS_FILE, Witness
from toolhall.stores.reading import MOST_LINE

_NONE: Mapping[str, Mark] = {}


class Wrong(Exception):
    """The first thing that is wrong with a log."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding))


class Checking:
    """One log, on the way through it."""

    def __init__(self, report: Report, key: PublicKey, seen: Witness, anchored: Mapping[str, Mark] = _NONE) -> None:
        self.report = report
        self.log = ""  # its id, once that is known
        self.checkpoints: list[int] = []  # the numbers of those in it
        self.stored = False  # whether one says that the store knew of the audit
        self._key = key
        self._seen = seen
        self._anchored = anchored  # by log: the checkpoint that the store knows
        self._anchor: Mark | None = None  # that of this log
        self._begun: dict[str, Unfinished] = {}  # by call: intents whose outcome has not come yet
        self._folder = ""
        self._marks: Mapping[int, Mark] = {}  # what the witness saw of it
        self._chain = Chain()
        self._signed = 0  # the number behind the last checkpoint
        self._dropped: Mark | None = None
        self._file, self._line = "", 0

    def follow(self, folder: Path, step: Callable[[int], None]) -> None:
        """Raises Wrong."""
        segments = segments_of(folder)
        self._folder = folder.name
        oldest, newest = segments[0], segments[-1]
        self._file, self._line = f"{folder.name}/{oldest.name}", 1
        if oldest == newest and not _first_line(oldest).endswith(b"\n"):
            self._note("has no end: the log is being begun, or a crash cut it off")
            return
        start = self._start(oldest)
        for segment in segments:
            self._file, self._line = f"{folder.name}/{segment.name}", 1
            if self._chain.number != first_number(segment.name):
                self._wrong(*misplaced(segment, _first_line(segment), self._chain))
            self._read(segment, step, newest=segment == newest)
        self._check_end()
        self._check_start(start, oldest)
        self.report.unfinished += self._begun.values()

    def _start(self, oldest: Path) -> Mark:
        """The first line of a segment says of which log it is, and that of the oldest where its chain begins."""
        number, raw = first_number(oldest.name), _first_line(oldest)
        line = read_line(raw)
        if line is None:
            self._wrong("changed", "the first line, which says of which log it is, is not what was written", number)
        if line.head is None:
            says = "the first line, which says of which log it is"
            if line.number == number:
                self._wrong("changed", f"{says}, is not what was written", number)
            self._wrong("moved" if holds(oldest, number) else "missing", says, number)
        self.log = line.head.log
        self._marks = self._seen.seen.get(self.log, {})
        self._anchor = self._anchored.get(self.log)
        self._chain = Chain(number, START if number == 0 else line.head.before.encode())
        return Mark(self.log, number, line.head.before, line.head.time)

    def _read(self, segment: Path, step: Callable[[int], None], *, newest: bool) -> None:
        chain = self._chain
        with segment.open("rb") as file:
            for count, raw in enumerate(iter(lambda: file.readline(MOST_LINE), b""), 1):
                step(len(raw))
                self._line, before = count, chain.last
                if newest and not raw.endswith(b"\n") and len(raw) < MOST_LINE:
                    self._note("has no end: it is being written, or a crash cut it off")
                    break
                if not chain.fits(raw[:-1]):
                    self._wrong(*named(segment, raw, chain))
                line = read_line(raw)
                if line is None:
                    self._wrong("changed", "no line of an audit", back=1)
                self._check(line, before.decode())

    def _check(self, line: Line, before: str) -> None:
        """What is in a line that fits."""
        if line.number in self._marks and self._marks[line.number].before != before:
            self._accuse(self._marks[line.number], "the witness saw another line here: an older copy was gone on with")
        if self._anchor is not None and line.number == self._anchor.number and self._anchor.before != before:
            self._wrong("rollback", "the store saw another line here: the log was made anew", back=1)
        if line.record is not None:
            self.report.records += 1
            self._follow_call(line.number, line.record)
        elif line.checkpoint is not None:
            self._check_mark("checkpoint", line.checkpoint, (line.number, before))
            self.report.checkpoints += 1
            self.checkpoints.append(line.number)
            self.stored |= line.checkpoint.stored
            self._signed = line.number + 1
        elif line.dropped is not None:
            self._check_mark("dropped", line.dropped, (line.dropped.number, line.dropped.before))
            self._dropped = line.dropped
        elif line.torn is not None:
            self._note(f"a crash left {line.torn.bytes} bytes, set aside in {line.torn.file}")
        elif line.lost is not None:
            self._note(f"{line.lost.records} records could not be written while the disk took none")

    def _follow_call(self, number: int, record: Record) -> None:
        """An intent is answered by the next record of its call."""
        if record.phase is None:
            self._begun.pop(record.call, None)
        else:
            self._begun[record.call] = Unfinished(
                self._folder, number, record.time, record.call, record.caller, record.tool
            )

    def _check_mark(self, purpose: Purpose, mark: Mark, place: tuple[int, str]) -> None:
        fitting = (mark.log, mark.number, mark.before) == (self.log, *place)
        if not fitting or not self._key.signed(purpose, mark):
            self._wrong("bad signature", f"this {purpose} was not signed here with this key", back=1)

    def _check_start(self, first: Mark, oldest: Path) -> None:
        """What is not there any more was dropped, and somebody who had the key said so."""
        if first.number == 0:
            return
        dropped = self._dropped
        self._file, self._line = f"{oldest.parent.name}/{oldest.name}", 1
        if dropped is None or first.number > dropped.number:
            self._wrong("missing", f"the log begins with number {first.number}, and nothing says why", number=0)
        if first.number == dropped.number and first.before != dropped.before:
            self._wrong("changed", "the log was dropped up to here, but with another end", number=first.number)
        self.report.notes.append(f"{oldest.parent.name}: dropped on purpose up to number {first.number - 1}")

    def _check_end(self) -> None:
        end = self._chain.number
        beyond = max((number for number in self._marks if number >= end), default=None)
        if beyond is not None:
            self._accuse(
                self._marks[beyond],
                f"the log ends with number {end - 1}, but checkpoint {beyond} was signed: an older copy was put back,"
                " or its end was cut off",
            )
        if self._anchor is not None and self._anchor.number >= end:
            self._wrong(
                "rollback",
                f"the log ends with number {end - 1}, but the store saw checkpoint {self._anchor.number}: an older copy"
                " was put back, or its end was cut off, together with the witness",
                number=end,
            )
        if end > self._signed:
            self.report.notes.append(
                f"{self._file}: {end - self._signed} lines are not signed yet, from number {self._signed} on;"
                " whether more followed cannot be told from a crash"
            )

    def _accuse(self, mark: Mark, says: str) -> NoReturn:
        """The witness says otherwise; so it had better be one."""
        if not self._key.signed("checkpoint", mark):
            self._file, self._line = WITNESS_FILE, 0
            self._wrong("bad signature", "this checkpoint was not signed with this key", number=mark.number)
        self._wrong("rollback", says, number=min(mark.number, self._chain.number))

    def _wrong(self, what: What, says: str, number: int | None = None, back: int = 0) -> NoReturn:
        """By default it is the next line of the chain; one that has been followed is `back` again."""
        place = self._chain.number - back if number is None else number
        raise Wrong(Finding(what, self._file, self._line, place, says))

    def _note(self, says: str) -> None:
        self.report.notes.append(f"{self._file}, line {self._line}: {says}")


def _first_line(segment: Path) -> bytes:
    with segment.open("rb") as file:
        return file.readline(MOST_LINE)
