"""Writers of converted definitions (JSON lines, input layout, JSON report, summary), and AtomicFile."""

import contextlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO, BinaryIO, Protocol

import msgspec

from toolhall.cli.documents.reader import Layout, LocatedFinding, Raw
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.output import note, visible
from toolhall.cli.progress import ProgressDisplay
from toolhall.dialects.base import Loss
from toolhall.model.json import encode

_IN_MEMORY = 1024 * 1024  # bytes of a report before it goes to a temporary file
_MAX_REASONS = 10
_MAX_EXAMPLES = 3
_MAX_COUNTED_REASONS = 1_000  # a reason may quote the document, so there may be one for each
_OTHER_REASONS = "for other reasons"


class AtomicFile:
    """A new file under a temporary name beside its path; `commit` replaces the old one in one step."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()  # the target of a symbolic link is replaced
        self._temporary = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        mode = _mode(path)
        descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
        self.stream: BinaryIO = os.fdopen(descriptor, "wb")
        if mode is not None:
            self._temporary.chmod(mode)

    def replaces(self, file: str) -> bool:
        """Whether `commit` would replace this file."""
        return self._path.exists() and Path(file).exists() and self._path.samefile(file)

    def commit(self) -> None:
        """Replace the file atomically."""
        self.stream.close()
        self._temporary.replace(self._path)

    def discard(self) -> None:
        """Remove the temporary file, unless it was committed."""
        with contextlib.suppress(OSError):
            self.stream.close()
        self._temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def open_atomic(path: Path) -> Generator[AtomicFile, None, None]:
    """An AtomicFile that is discarded at the end unless it was committed."""
    if path.is_dir():
        raise UsageError(f"--out {path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise UsageError(f"--out {path} is no plain file; leave out --out and redirect the output there")
    try:
        file = AtomicFile(path)
    except OSError as error:
        raise CommandError(f"--out {path} cannot be written: {error.strerror}; choose another place") from None
    try:
        yield file
    finally:
        file.discard()


def _mode(path: Path) -> int | None:
    """The permissions of an existing file."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


class ConversionWriter(Protocol):
    """Takes the documents, losses and problems of a conversion as they come."""

    def write_document(self, encoded: bytes) -> None:
        """Write a converted document."""
        ...

    def write_loss(self, index: int, loss: Loss) -> None:
        """Write what the target dialect cannot express of the document at `index`."""
        ...

    def write_problem(self, finding: LocatedFinding) -> None:
        """Write why a document was not converted."""
        ...

    def finish(self) -> None:
        """Write the end."""
        ...


class JsonLinesWriter:
    """Writes JSON lines; with `live` each is flushed at once."""

    def __init__(self, stream: IO[bytes], *, live: bool) -> None:
        self._stream = stream
        self._live = live
        self._terminal = stream.isatty()

    def write_document(self, encoded: bytes) -> None:
        """Write one line."""
        self._stream.write((_escape_unprintable(encoded) if self._terminal else encoded) + b"\n")
        if self._live:
            self._stream.flush()

    def write_loss(self, index: int, loss: Loss) -> None:
        """Nothing."""

    def write_problem(self, finding: LocatedFinding) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Flush."""
        self._stream.flush()


class LayoutWriter:
    """Writes one indented JSON text in the layout of the input; nothing if no document could be converted."""

    def __init__(self, stream: IO[bytes], layout: Layout, target: str) -> None:
        self._stream = stream
        self._layout = layout
        self._target = target
        self._documents: list[Raw] = []
        self._refused = False

    def write_document(self, encoded: bytes) -> None:
        """Collect it."""
        self._documents.append(Raw(encoded))

    def write_loss(self, index: int, loss: Loss) -> None:
        """Nothing."""

    def write_problem(self, finding: LocatedFinding) -> None:  # noqa: ARG002 - SummaryWriter prints it
        """Remember that something is missing."""
        self._refused = True

    def finish(self) -> None:
        """Write all documents."""
        if self._refused and not self._documents:
            return
        text = msgspec.json.format(encode(self._layout(self._documents, self._target)), indent=2)
        self._stream.write((_escape_unprintable(text) if self._stream.isatty() else text) + b"\n")
        self._stream.flush()


class JsonReportWriter:
    """Writes the report of `--json`; losses and problems are collected in temporary files, in constant memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._documents = _JsonArrayWriter(stream)
        self._losses = _JsonArrayWriter(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115 - closed once moved
        self._problems = _JsonArrayWriter(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
        stream.write(b'{"documents":[')

    def write_document(self, encoded: bytes) -> None:
        """Write it."""
        self._documents.add(encoded)

    def write_loss(self, index: int, loss: Loss) -> None:
        """Collect it for the end."""
        self._losses.add(encode({"index": index, "path": loss.path, "reason": loss.reason}))

    def write_problem(self, finding: LocatedFinding) -> None:
        """Collect it for the end."""
        self._problems.add(encode(finding.document()))

    def finish(self) -> None:
        """Write the losses, and the problems if there are any."""
        self._stream.write(b'],"losses":[')
        self._losses.copy_to(self._stream)
        if self._problems.count:
            self._stream.write(b'],"problems":[')
        self._problems.copy_to(self._stream)
        self._stream.write(b"]}\n")
        self._stream.flush()


class _JsonArrayWriter:
    """Writes the items of a JSON array one by one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.count = 0

    def add(self, encoded: bytes) -> None:
        self._stream.write(b"," + encoded if self.count else encoded)
        self.count += 1

    def copy_to(self, other: IO[bytes]) -> None:
        with self._stream:
            self._stream.seek(0)
            shutil.copyfileobj(self._stream, other)


def _escape_unprintable(encoded: bytes) -> bytes:
    """The same JSON for a terminal, with control and invisible characters as escapes."""
    text = encoded.decode()
    if text.isprintable():
        return encoded
    return "".join(
        letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text
    ).encode()


class SummaryWriter:
    """Prints problems at once, and losses counted by reason at the end."""

    def __init__(self, progress: ProgressDisplay, *, losses: bool) -> None:
        self._progress = progress
        self._losses = losses
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def write_document(self, encoded: bytes) -> None:
        """Nothing."""

    def write_loss(self, index: int, loss: Loss) -> None:
        """Count it by reason."""
        if not self._losses:
            return
        reason = loss.reason.partition("; written as ")[0]  # the new name differs each time
        if reason not in self._counts and len(self._counts) >= _MAX_COUNTED_REASONS:
            reason = _OTHER_REASONS
        self._counts[reason] = self._counts.get(reason, 0) + 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < _MAX_EXAMPLES:
            examples.append(f"document {index}, {loss.path or '/'}")

    def write_problem(self, finding: LocatedFinding) -> None:
        """Print it."""
        self._progress.print_line(str(finding))

    def finish(self) -> None:
        """Print the most frequent losses with examples."""
        self._progress.stop()
        if not self._counts:
            return
        note(f"lost on the way: {sum(self._counts.values()):,} (all of them: --json)")
        ranked = sorted(self._counts.items(), key=lambda each: -each[1])
        for reason, count in ranked[:_MAX_REASONS]:
            more = ", ..." if count > _MAX_EXAMPLES else ""
            note(visible(f"  {count:,} x {reason}: {'; '.join(self._examples[reason])}{more}"))
        rest = sum(count for _, count in ranked[_MAX_REASONS:])
        if rest:
            note(f"  {rest:,} x for {len(ranked) - _MAX_REASONS:,} other reasons")
