"""The log of this process: opened with its first record, closed with the process, and beside it the logs of none."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from toolhall.model.record import Record, Unwritten
from toolhall.stores.audit.claim import claim, idle
from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.log import Keeping, Listener, Log
from toolhall.stores.audit.opening import open_log
from toolhall.stores.audit.signing import KEY_FILE, PUBLIC_FILE, Signer
from toolhall.stores.lock import Lock

_log = logging.getLogger("toolhall.audit")

MOST_HELD = 2_000  # records for a log that cannot be opened
_DAY_SECONDS = 86_400


class Books:
    """For one thread; whatever raises OSError can be tried again."""

    def __init__(
        self, folder: Path, disk: Disk, clock: Callable[[], float], keeping: Keeping, listener: Listener | None = None
    ) -> None:
        self._listener = listener
        self._folder = folder
        self._disk = disk
        self._clock = clock
        self._keeping = keeping
        self._held: list[Record] = []
        self._lost = 0
        self._log: Log | None = None
        self._lock: Lock | None = None
        self._retired = -1.0  # the day on which old logs were looked after last

    def write(
        self, taken: Sequence[Record | Unwritten], *, lost: int = 0, safe: bool = False, sign: bool = False
    ) -> None:
        """Add records, and say how many were lost before them.

        `safe` waits until everything so far survives a power loss, `sign` adds a checkpoint too.
        """
        self._lost += lost
        self._hold(taken)
        log = self._log or self._opened_first()
        self._retire_others()
        self._hand_over(log)
        if sign:
            log.sign()
        elif safe:
            log.sync()

    def close(self) -> None:
        """Sign what is left, if there is anything."""
        log, self._log = self._log, None
        try:
            if log is None and self._held:
                log = self._open()
            if log is not None:
                self._log = None
                try:
                    self._hand_over(log)
                finally:
                    log.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def _hold(self, taken: Sequence[Record | Unwritten]) -> None:
        """Make records of them; if one cannot be made, all count as lost, which the log will say."""
        self._lost += len(taken)
        self._held += [each if isinstance(each, Record) else each.record() for each in taken]
        self._lost -= len(taken)

    def _hand_over(self, log: Log) -> None:
        held, self._held = self._held, []
        lost, self._lost = self._lost, len(held)
        log.lose(lost)
        try:
            log.write(held)
        except OSError:  # it has them, and will write them when it can
            self._lost = 0
            raise
        self._lost = 0

    def _opened_first(self) -> Log:
        try:
            return self._open()
        except OSError:
            self._lost += len(self._held[MOST_HELD:])
            del self._held[MOST_HELD:]
            raise

    def _open(self) -> Log:
        self._disk.make_folder(self._folder)
        signer = Signer(self._folder)
        self._keep(KEY_FILE, PUBLIC_FILE)
        folder, lock = claim(self._disk, self._folder)
        try:
            log = self._opened(folder, signer)
        except BaseException:
            lock.release()
            raise
        self._log, self._lock = log, lock
        return log

    def _opened(self, folder: Path, signer: Signer) -> Log:
        opened = open_log(folder, signer.public, self._disk, self._clock())
        return Log(opened, signer, self._disk, self._clock, self._keeping, self._listener)

    def _keep(self, *names: str) -> None:
        """A key that a power loss took would leave signatures that nobody can check."""
        for name in names:
            file = self._disk.open(self._folder / name)
            try:
                self._disk.sync(file)
            finally:
                self._disk.close(file)
        self._disk.sync_folder(self._folder)

    def _retire_others(self) -> None:
        """Once a day: what is old in logs whose process is gone has nobody else to drop it."""
        today = self._clock() // _DAY_SECONDS
        if not self._keeping.days or today == self._retired:
            return
        self._retired = today
        for folder, lock in idle(self._disk, self._folder):
            try:
                log = self._opened(folder, Signer(self._folder))
                try:
                    log.retire()
                finally:
                    log.close()
            except OSError:
                _log.exception("what is old in %s could not be dropped; it is tried again tomorrow", folder)
            finally:
                lock.release()
