"""The end of the segment that is being written: what was added to it, and how far that has come."""

from contextlib import suppress

from toolhall.stores.audit.disk import Disk


class Tail:
    """Keeps everything in memory until the disk has it for sure, so that whatever fails can be done again."""

    def __init__(self, disk: Disk, file: int, at: int) -> None:
        self.file = file
        self.failed = False  # the disk did not take what it was given last
        self._disk = disk
        self._safe = at  # bytes that are there after a power loss
        self._pending = bytearray()  # what comes behind them
        self._stored = 0  # how much of that was written

    @property
    def size(self) -> int:
        """How long the segment is, or will be."""
        return self._safe + len(self._pending)

    @property
    def waiting(self) -> int:
        """How many bytes are not safe yet."""
        return len(self._pending)

    def add(self, line: bytes) -> None:
        """A whole line to the end."""
        self._pending += line

    def store(self) -> None:
        """Write what was added; other processes can read it then."""
        left = bytes(self._pending[self._stored :])
        if not left:
            return
        place = self._safe + self._stored
        try:
            self._disk.write(self.file, place, left)
        except OSError:
            self.failed = True
            with suppress(OSError):  # half a line must not stand in front of what others write, or where they read
                self._disk.cut(self.file, place)
            raise
        self._stored = len(self._pending)
        self.failed = False

    def sync(self) -> None:
        """Write what was added, and wait until it is there after a power loss."""
        self.store()
        if not self._pending:
            return
        try:
            self._disk.sync(self.file)
        except OSError:
            self.failed = True
            self._stored = 0  # nobody knows what the disk has of it now, so that all of it is written again
            raise
        self._safe += len(self._pending)
        self._pending.clear()
        self._stored = 0
        self.failed = False
