"""ResourceChanges: tells listeners that what a URI means has changed, in the loop in which each of them listens.

Only the URI is told; whoever wants the new contents reads them, and is authorized then. A listener of `shop://orders`
also hears of what lies below it, such as `shop://orders/17`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

MAX_SEGMENTS = 64  # above which a listener still hears


class _Listener(NamedTuple):
    loop: asyncio.AbstractEventLoop | None
    notify: Callable[[str], None]


class ResourceChanges:
    """The listeners of this process, by the URI that they asked for."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listener]] = {}
        self._by_account: Counter[str] = Counter()
        self._listeners_of_all: list[Callable[[str], None]] = []
        # Called with a URI when its first listener comes (True), and when its last one has gone (False).
        self.on_asked: Callable[[str, bool], None] | None = None

    def subscribe_all(self, notify: Callable[[str], None]) -> None:
        """Call `notify` with each URI that changes, in whichever thread it does."""
        self._listeners_of_all.append(notify)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody would be told of a change."""
        return bool(self._listeners)

    def count_of(self, account: str) -> int:
        """Return the number of listeners of one account."""
        return self._by_account[account]

    def subscribe(self, uri: str, notify: Callable[[str], None], account: str = "") -> Callable[[], None]:
        """Call `notify` with each URI that changes, in the loop that runs now; returns the function that ends it."""
        listener = _Listener(_running_loop(), notify)
        if self.on_asked is not None and uri not in self._listeners:
            self.on_asked(uri, True)
        self._listeners.setdefault(uri, []).append(listener)
        self._by_account[account] += 1

        def unsubscribe() -> None:
            with suppress(KeyError, ValueError):
                self._listeners[uri].remove(listener)
                if not self._listeners[uri]:
                    del self._listeners[uri]
                    if self.on_asked is not None:
                        self.on_asked(uri, False)
                self._by_account[account] -= 1
                if not self._by_account[account]:
                    del self._by_account[account]

        return unsubscribe

    def changed(self, uri: str) -> None:
        """Tell everybody who listens to this URI or to one above it; may be called from any thread."""
        for notify in self._listeners_of_all:
            notify(uri)
        if not self._listeners:
            return
        here = _running_loop()
        for asked in _above(uri):
            for listener in tuple(self._listeners.get(asked, ())):
                if listener.loop is None or listener.loop is here:
                    listener.notify(uri)
                elif not listener.loop.is_closed():
                    listener.loop.call_soon_threadsafe(listener.notify, uri)


def _above(uri: str) -> Iterator[str]:
    """Yield the URI and those above it, up to its authority."""
    yield uri
    start = uri.find("://") + 3
    path = uri.partition("?")[0]
    if path != uri:
        yield path
    for _ in range(MAX_SEGMENTS):
        path = path.rpartition("/")[0]
        if len(path) < start or start < len("://"):
            return
        yield path
        yield f"{path}/"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
