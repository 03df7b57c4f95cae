"""FileLists: keeps the lists of files current, those of folders and of skills, and tells subscribers what changed.

Theory of operation. Files are looked at again when somebody asks for a list (`refresh`): that request waits for a scan
which began after it came, and all requests that come until then share it. A scan runs in a thread, compares the stamps
of files (inode, size, times), and its result is put in place in the event loop: as a new snapshot of the registry, if
the lists differ, so that lists, their cached bytes and the notices of a changed list are as with any other change.

While anybody listens for changes, files are also looked at every WATCH_SECONDS. Polling needs nothing of the operating
system, works on every file system, and is bounded: after a scan, the next one waits IDLE_SHARE times as long as it
took, so that scans take at most a fifth of one core, however large the folders are and however often lists are asked
for; while watching, a hundredth.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from toolhall.authoring.file_source import FileScan, FileSource
from toolhall.concurrency import BackgroundTasks
from toolhall.pipeline.resource_changes import ResourceChanges
from toolhall.registry.registry import Registry

WATCH_SECONDS = 2.0
IDLE_SHARE = 4
WATCH_IDLE_SHARE = 99
_log = logging.getLogger("toolhall.files")


class FileLists:
    """The lists of all folders and skills of a registry."""

    def __init__(
        self,
        registry: Registry,
        changes: ResourceChanges,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._registry = registry
        self._changes = changes
        self._clock = clock
        self._sleep = sleep
        self._tasks = BackgroundTasks()
        self._loop: asyncio.AbstractEventLoop | None = None  # in which the tasks run
        self._next: asyncio.Task[None] | None = None  # a scan that has not begun
        self._current: asyncio.Task[None] | None = None
        self._took = 0.0
        self._ended = -1e9
        self._watches = False
        self._timer: asyncio.TimerHandle | None = None

    async def refresh(self) -> None:
        """Look at all files again, so that the next snapshot has their lists as they are now."""
        if not self._sources():
            return
        self._use_running_loop()
        if self._next is None:
            self._next = self._tasks.start(self._scan_after(self._current))
        await asyncio.shield(self._next)

    def watch(self) -> None:
        """From now on look at the files from time to time in the running loop, while anybody listens for changes."""
        self._watches = True
        self._use_running_loop()

    async def settle(self) -> None:
        """End the watch, and what runs in this loop."""
        self.close()
        await self._tasks.shutdown()

    def close(self) -> None:
        """End the watch, without waiting for a scan."""
        self._watches = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(max(WATCH_SECONDS, WATCH_IDLE_SHARE * self._took), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._changes.has_listeners or self._registry.has_listeners:
            self._tasks.start(self._look_and_schedule(loop))
        else:
            self._schedule(loop)

    async def _look_and_schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            await self.refresh()
        except Exception:  # noqa: BLE001 - one failed look at the files must not end the watch
            _log.exception("files could not be looked at")
        if self._watches:
            self._schedule(loop)

    async def _scan_after(self, previous: "asyncio.Task[None] | None") -> None:
        if previous is not None:
            await asyncio.wait({previous})
        rest = self._ended + IDLE_SHARE * self._took - self._clock()
        if rest > 0:
            await self._sleep(rest)
        self._current, self._next = self._next, None  # whoever comes from now on waits for another scan
        sources, began = self._sources(), self._clock()
        try:
            scans = await asyncio.to_thread(_scan_all, sources)
        finally:
            self._ended = self._clock()
            self._took = self._ended - began
        self._apply(zip(sources, scans, strict=True))

    def _apply(self, scans: "zip[tuple[FileSource, FileScan]]") -> None:
        is_changed, changed = False, list[str]()
        for source, scan in scans:
            is_changed |= scan.listed != source.listed
            source.listed = scan.listed
            changed += scan.changed
        if is_changed:
            self._registry.list_files_again()
        for uri in changed:
            self._changes.changed(uri)

    def _sources(self) -> Sequence[FileSource]:
        return self._registry.snapshot.file_sources

    def _use_running_loop(self) -> None:
        """Watch in this loop, and forget the tasks of one that served before."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._tasks = BackgroundTasks()
            self._next = self._current = self._timer = None
        if self._watches and self._timer is None and self._sources():
            self._schedule(loop)


def _scan_all(sources: Sequence[FileSource]) -> list[FileScan]:
    return [source.scan() for source in sources]
