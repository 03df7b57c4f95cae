"""Where tools are added and removed; everyone who listens hears of every real change."""

import asyncio
import threading
from collections.abc import Callable, Iterable

from toolhall.dialects.oxp.catalog import part
from toolhall.model.names import published_problem
from toolhall.registry.entry import Entry
from toolhall.registry.snapshot import Snapshot

DEFAULT_PAGE_SIZE = 100


class Conflict(ValueError):
    """A tool that cannot be registered beside those already there; the message names both."""


class Registry:
    """Holds the current snapshot; a change swaps it in one step, so a call never sees half of one."""

    def __init__(self, page_size: int = DEFAULT_PAGE_SIZE) -> None:
        self._page_size = page_size
        self._listeners: dict[Callable[[], None], asyncio.AbstractEventLoop | None] = {}
        self._changing = threading.Lock()
        self.snapshot = Snapshot((), page_size)

    def add(self, entries: Iterable[Entry]) -> None:
        """Add tools, all or none; raises Conflict. A tool in a thread may do so too."""
        with self._changing:
            taken = {name: entry for entry in self.snapshot.entries for name in _names(entry)}
            added: list[Entry] = []
            for entry in entries:
                _check_name(entry, taken)
                taken |= dict.fromkeys(_names(entry), entry)
                added.append(entry)
            changed = self._swap((*self.snapshot.entries, *added))
        self._tell(changed)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        with self._changing:
            found = self.snapshot.find(name)
            changed = self._swap(tuple(entry for entry in self.snapshot.entries if entry is not found))
        self._tell(changed)
        return found is not None

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change, in the loop that runs now, if one does; returns how to end that."""
        self._listeners[listener] = _running_loop()

        def end() -> None:
            self._listeners.pop(listener, None)

        return end

    def _swap(self, entries: tuple[Entry, ...]) -> bool:
        if entries == self.snapshot.entries:
            return False
        before, self.snapshot = self.snapshot, Snapshot(entries, self._page_size)
        return before.listed != self.snapshot.listed  # an older version beside a newer one changes no list

    def _tell(self, changed: bool) -> None:
        here = _running_loop()
        for listener, loop in tuple(self._listeners.items()) if changed else ():
            if loop is None or loop is here:
                listener()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(listener)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _names(entry: Entry) -> tuple[str, ...]:
    """The names that belong to one tool alone, in every dialect; letter case does not tell two apart."""
    tool_id = entry.tool.id
    in_oxp = f"oxp:{part(tool_id.toolkit)}.{part(tool_id.tool)}"  # which knows fewer letters
    return entry.tool.name.casefold(), entry.id.casefold(), in_oxp.casefold()


def _is_version(entry: Entry, other: Entry) -> bool:
    """Whether both are versions of one tool, which keeps its published name."""
    one, two = entry.tool.id, other.tool.id
    return (one.toolkit, one.tool) == (two.toolkit, two.tool) and one.version != two.version


def _check_name(entry: Entry, taken: dict[str, Entry]) -> None:
    problem = published_problem(entry.tool.name)
    if problem:
        raise Conflict(problem)
    twin = next((taken[name] for name in _names(entry) if name in taken and not _is_version(entry, taken[name])), None)
    if twin is not None and twin.id == entry.id:
        raise Conflict(f"{entry.id} is registered already; remove it first, or raise its version")
    if twin is not None and twin.tool.name.casefold() == entry.tool.name.casefold():
        raise Conflict(
            f"{entry.id} would be published as {entry.tool.name!r}, but {twin.id} is already "
            f"{twin.tool.name!r}; rename one of them with @tool(name=...)"
        )
    if twin is not None:
        raise Conflict(f"{entry.id} and {twin.id} would have one id in OXP; rename one of them")
