"""What a store in SQL needs of the engine below it."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Database(Protocol):
    """Shared by all stores of one database."""

    def run(
        self, work: Callable[Concatenate[Connection, _P], _T], *given: _P.args, **named: _P.kwargs
    ) -> Awaitable[_T]:
        """Do this work with the connection; it is one transaction, begun and ended there."""
        ...

    def submit(
        self, work: Callable[Concatenate[Connection, _P], _T], *given: _P.args, **named: _P.kwargs
    ) -> Future[_T]:
        """The same for a thread that has no loop; raises StoreFailed once it is closed."""
        ...
