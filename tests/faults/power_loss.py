"""A disk that loses power: what was not synced is kept, dropped or torn at 512 bytes, as a seed says."""

from itertools import pairwise
from pathlib import Path
from random import Random

from toolhall.stores.audit.disk import Disk

SECTOR = 512


class PowerLost(BaseException):
    """The machine is off; no code of it runs on."""


class _File:
    """What a power loss would leave for sure, and what came after that."""

    def __init__(self, content: bytes) -> None:
        self.safe = content
        self.writes: list[tuple[int, bytes | None]] = []  # a place and bytes; None: cut there

    def settle(self) -> None:
        """Everything that came is safe."""
        if self.writes:
            self.safe, self.writes = self.left(None), []

    def left(self, chance: Random | None) -> bytes:
        """What is there after a power loss, or if nothing is left to chance, without one."""
        content = bytearray(self.safe)
        for at, data in self.writes:
            share = chance.choice((0.0, 0.5, 0.9, 1.0)) if chance else 1.0
            if data is None:
                if share == 1.0 or (chance and chance.random() < share):
                    del content[at:]
                continue
            for start, end in _sectors(at, len(data)):
                if share == 1.0 or (chance and chance.random() < share):
                    content.extend(b"\x00" * (start - len(content)))
                    content[start:end] = data[start - at : end - at]
        return bytes(content)


class PowerLossDisk(Disk):
    """Works like any other until it has done so many things, and then loses power in the middle of the next."""

    def __init__(self, chance: Random, things: int) -> None:
        self._chance = chance
        self._left = things
        self._files: dict[Path, _File] = {}
        self._open: dict[int, Path] = {}
        self._made: dict[Path, set[Path]] = {}  # by folder: names that are not safe there yet
        self._gone: dict[Path, dict[Path, bytes]] = {}  # by folder: names that may come back

    def open(self, path: Path, *, shared: bool = False) -> int:
        self._use()
        if not path.exists():
            self._made.setdefault(path.parent, set()).add(path)
            self._files[path] = _File(b"")
        file = super().open(path, shared=shared)
        if path not in self._files:
            self._files[path] = _File(path.read_bytes())
        self._open[file] = path
        return file

    def write(self, file: int, at: int, data: bytes | bytearray | memoryview) -> None:
        self._files[self._open[file]].writes.append((at, bytes(data)))
        self._use()
        super().write(file, at, data)

    def truncate(self, file: int, size: int) -> None:
        self._files[self._open[file]].writes.append((size, None))
        self._use()
        super().truncate(file, size)

    def sync(self, file: int) -> None:
        self._use()
        self._files[self._open[file]].settle()

    def sync_folder(self, path: Path) -> None:
        self._use()
        self._made.pop(path, None)
        self._gone.pop(path, None)

    def remove(self, path: Path) -> None:
        self._use()
        known = self._files.pop(path, None)
        if path.exists():
            self._gone.setdefault(path.parent, {})[path] = known.safe if known else path.read_bytes()
        self._made.get(path.parent, set()).discard(path)
        super().remove(path)

    def close(self, file: int) -> None:
        del self._open[file]
        super().close(file)

    def lose_power(self) -> None:
        """Leave on the real disk what this one would have kept."""
        for file in tuple(self._open):
            self.close(file)
        for path, known in self._files.items():
            path.write_bytes(known.left(self._chance))
        for names in self._made.values():
            for path in names:
                if self._chance.random() < 0.5:
                    path.unlink(missing_ok=True)
        for gone in self._gone.values():
            for path, content in gone.items():
                if self._chance.random() < 0.5:
                    path.write_bytes(content)

    def _use(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise PowerLost


def _sectors(at: int, size: int) -> list[tuple[int, int]]:
    """The parts of a write that a disk does at once."""
    bounds = sorted({at, at + size, *range(-(-at // SECTOR) * SECTOR, at + size, SECTOR)})
    return list(pairwise(bounds))
