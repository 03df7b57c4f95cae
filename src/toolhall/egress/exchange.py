"""`MessageQueue`, the unread messages of one exchange with a peer, and `ExchangeLost`, its failure.

An exchange is a request, and the messages that answer it: over HTTP, one JSON text, lines, or events.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Generic, TypeVar

TRANSPORT_CLOSED = "the transport was closed"
HandedT = TypeVar("HandedT")
T = TypeVar("T")


class ExchangeLost(Exception):
    """The peer gave no whole answer; `reason` is for the log.

    `delivered=False`: provably no byte of the request was written to a connection, so the peer cannot have acted on it.
    """

    def __init__(self, reason: str, *, delivered: bool) -> None:
        self.reason = reason
        self.delivered = delivered
        super().__init__(reason)


class ExchangeTooLarge(ExchangeLost):
    """The messages of an answer exceed the limit, which is no fault of the connection: the peer is healthy."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, delivered=True)


class PeerRejected(ExchangeLost):
    """The peer must not be talked to: its address is not allowed, or its certificate is not trusted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, delivered=False)


class MessageQueue(ABC, Generic[HandedT]):
    """Unread messages of one exchange, for one reader; subclasses split the bytes of their transport into messages.

    A transport may also hand a decoded message (HandedT) to a reader that waits.
    """

    # As class attributes, the initial values cost nothing per exchange.
    failure: str | None = None  # why no more messages come
    is_too_large = False  # the failure is that of ExchangeTooLarge
    _waiter: "asyncio.Future[HandedT | None] | None" = None
    _handler_timeout: asyncio.Timeout | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop  # kept, because get_running_loop costs a system call

    @abstractmethod
    def pop(self) -> bytes | None:
        """Remove and return the next whole message, if there is one."""

    @abstractmethod
    def has_message(self) -> bool:
        """Whether there is a whole message."""

    def notify(self) -> None:
        """Wake the reader: something has arrived."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, reason: str) -> None:
        """No more messages come. Also cancels what `attend` awaits, since its answer could not be delivered."""
        self.failure = self.failure or reason
        self.notify()
        if self._handler_timeout is not None and not self.has_message():
            self._handler_timeout.reschedule(self._loop.time())
            self._handler_timeout = None

    def wait(self) -> "asyncio.Future[HandedT | None]":
        """A future of the next message, or of None: look with `pop`. Raises ExchangeLost if nothing can come any more.

        To be called when `pop` found nothing, and so after everything that came before the failure was read.
        """
        if self.failure is not None:
            raise ExchangeTooLarge(self.failure) if self.is_too_large else ExchangeLost(self.failure, delivered=True)
        self._waiter = waiter = self._loop.create_future()
        return waiter

    async def attend(self, handling: Awaitable[T]) -> T | None:
        """Await the handling of a message; cancelled, with None as the result, if the exchange fails meanwhile."""
        timeout = asyncio.timeout(None)  # expires when the exchange fails
        try:
            async with timeout:
                self._handler_timeout = None if self.failure else timeout
                return await handling
        except TimeoutError:
            if not timeout.expired():
                raise
            return None
        finally:
            self._handler_timeout = None
