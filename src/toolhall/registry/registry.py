"""Where tools are added and removed; everyone who listens hears of every real change."""

from collections.abc import Callable, Iterable

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
        self._listeners: set[Callable[[], None]] = set()
        self.snapshot = Snapshot((), page_size)

    def add(self, entries: Iterable[Entry]) -> None:
        """Add tools, all or none; raises Conflict."""
        taken = {name: entry for entry in self.snapshot.entries for name in _names(entry)}
        added: list[Entry] = []
        for entry in entries:
            _check_name(entry, taken)
            taken |= dict.fromkeys(_names(entry), entry)
            added.append(entry)
        self._swap((*self.snapshot.entries, *added))

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        found = self.snapshot.find(name)
        self._swap(tuple(entry for entry in self.snapshot.entries if entry is not found))
        return found is not None

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change; the returned function ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _swap(self, entries: tuple[Entry, ...]) -> None:
        if entries == self.snapshot.entries:
            return
        self.snapshot = Snapshot(entries, self._page_size)
        for listener in tuple(self._listeners):
            listener()


def _names(entry: Entry) -> tuple[str, str]:
    """The names that belong to one tool alone; letter case does not tell two apart."""
    return entry.tool.name.casefold(), entry.id.casefold()


def _check_name(entry: Entry, taken: dict[str, Entry]) -> None:
    problem = published_problem(entry.tool.name)
    if problem:
        raise Conflict(problem)
    twin = next((taken[name] for name in _names(entry) if name in taken), None)
    if twin is not None:
        raise Conflict(
            f"{entry.id} would be published as {entry.tool.name!r}, but {twin.id} is already "
            f"{twin.tool.name!r}; rename one of them with @tool(name=...)"
        )
