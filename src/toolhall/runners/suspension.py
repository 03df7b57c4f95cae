"""Runs an awaitable and tells at the moment it first has to wait, so that quick calls pay for no timer or task."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Noticed(Generic[T]):
    """`await Noticed(work, hook)` equals `await work`, but calls `hook` once if `work` does not finish at once."""

    __slots__ = ("_hook", "_work")

    def __init__(self, work: Awaitable[T], hook: Callable[[], None]) -> None:
        self._work = work
        self._hook = hook

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        try:
            waiting_for = next(steps)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        self._hook()
        try:
            sent = yield waiting_for
        except BaseException as thrown:  # noqa: BLE001 - a cancellation must reach the work, as it would without us
            return (yield from _resume(steps, thrown))
        _ = sent
        return (yield from steps)


def _resume(steps: Generator[Any, Any, T], thrown: BaseException) -> Generator[Any, Any, T]:
    try:
        waiting_for = steps.throw(thrown)
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]
    try:
        yield waiting_for
    except BaseException as again:  # noqa: BLE001
        return (yield from _resume(steps, again))
    return (yield from steps)
