"""Where converted documents go: in the layout they came in, or into one report with all that was lost."""

import json
import shutil
import tempfile
from typing import IO, Protocol

import msgspec

from toolhall.cli.documents.reading import Layout, Raw
from toolhall.cli.documents.spotted import Spotted
from toolhall.dialects.catalog import Loss
from toolhall.model.json import encode

_IN_MEMORY = 1024 * 1024


class Sink(Protocol):
    """Takes what comes of a conversion, piece by piece."""

    def document(self, encoded: bytes) -> None:
        """A converted document."""
        ...

    def loss(self, index: int, loss: Loss) -> None:
        """What the target dialect cannot say of the document at `index`."""
        ...

    def problem(self, spotted: Spotted) -> None:
        """Why a document was not converted."""
        ...

    def finish(self) -> None:
        """All have come."""
        ...


class Lines:
    """JSON lines; each goes out as it comes, where somebody may be waiting for it."""

    def __init__(self, stream: IO[bytes], *, live: bool) -> None:
        self._stream = stream
        self._live = live
        self._terminal = stream.isatty()

    def document(self, encoded: bytes) -> None:
        """Write one line."""
        self._stream.write((_harmless(encoded) if self._terminal else encoded) + b"\n")
        if self._live:
            self._stream.flush()

    def loss(self, index: int, loss: Loss) -> None:
        """Not here."""

    def problem(self, spotted: Spotted) -> None:
        """Not here."""

    def finish(self) -> None:
        """Hand over what is still in a buffer."""
        self._stream.flush()


class Whole:
    """One JSON text, indented, in the layout of the input; nothing is written if nothing could be converted."""

    def __init__(self, stream: IO[bytes], layout: Layout, target: str) -> None:
        self._stream = stream
        self._layout = layout
        self._target = target
        self._documents: list[Raw] = []
        self._refused = False

    def document(self, encoded: bytes) -> None:
        """Keep it."""
        self._documents.append(Raw(encoded))

    def loss(self, index: int, loss: Loss) -> None:
        """Not here."""

    def problem(self, spotted: Spotted) -> None:  # noqa: ARG002 - which one is told elsewhere
        """Remember that something is missing."""
        self._refused = True

    def finish(self) -> None:
        """Write the whole."""
        if self._refused and not self._documents:
            return
        text = msgspec.json.format(encode(self._layout(self._documents, self._target)), indent=2)
        self._stream.write((_harmless(text) if self._stream.isatty() else text) + b"\n")
        self._stream.flush()


class Report:
    """What `--json` prints; losses and problems wait in temporary files, so that memory does not grow with them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._documents = _Items(stream)
        self._losses = _Items(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115 - closed once moved
        self._problems = _Items(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
        stream.write(b'{"documents":[')

    def document(self, encoded: bytes) -> None:
        """Write it."""
        self._documents.add(encoded)

    def loss(self, index: int, loss: Loss) -> None:
        """Keep it for later."""
        self._losses.add(encode({"index": index, "path": loss.path, "reason": loss.reason}))

    def problem(self, spotted: Spotted) -> None:
        """Keep it for later."""
        self._problems.add(encode(spotted.document()))

    def finish(self) -> None:
        """Write the rest; problems are named only where there are some."""
        self._stream.write(b'],"losses":[')
        self._losses.move_to(self._stream)
        if self._problems.count:
            self._stream.write(b'],"problems":[')
        self._problems.move_to(self._stream)
        self._stream.write(b"]}\n")
        self._stream.flush()


class _Items:
    """The items of a JSON list, written one by one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.count = 0

    def add(self, encoded: bytes) -> None:
        self._stream.write(b"," + encoded if self.count else encoded)
        self.count += 1

    def move_to(self, other: IO[bytes]) -> None:
        with self._stream:
            self._stream.seek(0)
            shutil.copyfileobj(self._stream, other)


def _harmless(encoded: bytes) -> bytes:
    """The same JSON for a terminal: what would be invisible or steer it is written as an escape."""
    text = encoded.decode()
    if text.isprintable():
        return encoded
    return "".join(
        letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text
    ).encode()
