"""Runs an awaitable step by step: tells when it first has to wait, so that quick calls pay for no timer or task."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_log = logging.getLogger("toolhall.run")


def is_brief(waiting_for: object) -> bool:
    """Whether this future says of itself that it is done in a moment, so that nobody need watch over it."""
    return getattr(waiting_for, "brief", False) is True


def _never() -> bool:
    return False


class Noticed(Generic[T]):
    """`await Noticed(work, hook)` equals `await work`, but calls `hook` once if `work` does not finish at once.

    What it waits for only briefly, as for a record that goes to the disk, does not count.

    Work that goes on waiting after it was cancelled is abandoned once `give_up` says so: it is driven no further.
    """

    __slots__ = ("_give_up", "_hook", "_work")

    def __init__(self, work: Awaitable[T], hook: Callable[[], None], give_up: Callable[[], bool] = _never) -> None:
        self._work = work
        self._hook = hook
        self._give_up = give_up

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        try:
            waiting_for = next(steps)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        noticed = False
        while True:
            if not noticed and not is_brief(waiting_for):
                noticed = True
                self._hook()
            thrown: BaseException | None = None
            try:
                yield waiting_for
            except BaseException as error:  # noqa: BLE001 - a cancellation must reach the work, as it would without us
                thrown = error
            try:
                waiting_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as finished:
                return finished.value  # type: ignore[no-any-return]
            if thrown is not None and self._give_up():
                _abandon(steps)
                raise asyncio.CancelledError


def _abandon(steps: Generator[Any, Any, Any]) -> None:
    """Close the work where it waits; what it says to that matters to nobody any more."""
    try:
        steps.close()
    except (Exception, asyncio.CancelledError):  # noqa: BLE001
        _log.exception("a tool that was abandoned did not end quietly")
