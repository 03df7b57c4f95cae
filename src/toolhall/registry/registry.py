"""Where tools are added and removed; everyone who listens hears of every real change."""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from toolhall.model.names import published_problem
from toolhall.registry.change import Change, changes_list
from toolhall.registry.entry import Entry
from toolhall.registry.names import Claims, twin_problem
from toolhall.registry.published import Published
from toolhall.registry.snapshot import Snapshot
from toolhall.registry.withheld import Withheld

DEFAULT_PAGE_SIZE = 100


class Conflict(ValueError):
    """A tool that cannot be registered beside those already there; the message names both."""


class Registry:
    """Holds the current snapshot; a change swaps it in one step, so a call never sees half of one."""

    def __init__(self, page_size: int = DEFAULT_PAGE_SIZE) -> None:
        self._page_size = page_size
        self._listeners: dict[Callable[[], None], _Hearing] = {}
        self._changing = threading.Lock()
        self._claims = Claims()
        self.withheld = Withheld()
        self.snapshot = Snapshot((), page_size)
        self._published = Published(self.snapshot)

    def add(self, entries: Iterable[Entry]) -> None:
        """Add tools, all or none; raises Conflict. A tool in a thread may do so too."""
        self.change(entries)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        found = self.snapshot.find(name)
        if found is not None:
            self.change(without=(found.id,))
        return found is not None

    def change(self, entries: Iterable[Entry] = (), without: Collection[str] = ()) -> None:
        """In one step, remove the tools with these ids and add others, all or none; raises Conflict."""
        with self._changing:
            gone = [entry for entry in self.snapshot.entries if entry.id in without] if without else []
            kept = [entry for entry in self.snapshot.entries if entry.id not in without] if gone else []
            added = self._exchange(gone, list(entries))
            changed = self._swap((*(kept if gone else self.snapshot.entries), *added))
        self._tell(changed)

    def problem(self, entry: Entry) -> str | None:
        """Why this tool could not be added beside those that are there, or None; its own versions do not matter."""
        with self._changing:
            try:
                _check(entry, (), self._claims)
            except Conflict as conflict:
                return str(conflict)
        return None

    @property
    def published(self) -> Published:
        """What each dialect calls the tools that are there now."""
        if self._published.snapshot is not self.snapshot:
            self._published = Published(self.snapshot)
        return self._published

    def subscribe(
        self, listener: Callable[[], None], concerns: Callable[[Change], bool] = changes_list
    ) -> Callable[[], None]:
        """Call `listener` after every change that concerns it, in the loop that runs now, if one does.

        In that loop it is called at once, before whoever made the change goes on. Returns how to end that.
        """
        self._listeners[listener] = _Hearing(_running_loop(), concerns)

        def end() -> None:
            self._listeners.pop(listener, None)

        return end

    def tell_sight(self) -> None:
        """Tell whoever listens that who sees which tools may be another now."""
        self._tell(Change(self.snapshot, self.snapshot, of_sight=True))

    def _exchange(self, gone: list[Entry], added: list[Entry]) -> list[Entry]:
        """Let the claims of some go and take those of others; if one cannot be had, everything is as it was."""
        for entry in gone:
            self._claims.release(entry.tool)
        there = {entry.id for entry in self.snapshot.entries}.difference(entry.id for entry in gone) if added else set()
        taken: list[Entry] = []
        try:
            for entry in added:
                _check(entry, there, self._claims)
                self._claims.take(entry.tool)
                there.add(entry.id)
                taken.append(entry)
        except Conflict:
            for entry in taken:
                self._claims.release(entry.tool)
            for entry in gone:
                self._claims.take(entry.tool)
            raise
        return taken

    def _swap(self, entries: tuple[Entry, ...]) -> Change | None:
        if entries == self.snapshot.entries:
            return None
        change = Change(self.snapshot, Snapshot(entries, self._page_size))
        self.snapshot = change.after
        return change

    def _tell(self, change: Change | None) -> None:
        if change is None:
            return
        here = _running_loop()
        for listener, (loop, concerns) in tuple(self._listeners.items()):
            if not concerns(change):
                continue
            if loop is None or loop is here:
                listener()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(listener)


class _Hearing(NamedTuple):
    """Where a listener is called, and which changes are news to it."""

    loop: asyncio.AbstractEventLoop | None
    concerns: Callable[[Change], bool]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _check(entry: Entry, there: Collection[str], held: Claims) -> None:
    if problem := published_problem(entry.tool.name):
        raise Conflict(problem)
    if entry.id in there:
        raise Conflict(f"{entry.id} is registered already; remove it first, or raise its version")
    if other := held.other(entry.tool):
        raise Conflict(twin_problem(entry.tool, other))
