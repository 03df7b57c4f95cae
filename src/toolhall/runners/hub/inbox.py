"""What a tool server said about one call and nobody has read yet, and whether more can come."""

import asyncio
from abc import ABC, abstractmethod

from toolhall.dialects.hub.remote import Told, ToldQuestion
from toolhall.runners.hub.line import Hear, Lost, TooMuch


class Inbox(ABC):
    """For one reader; how the messages are told apart is its line's business."""

    __slots__ = ("_hearing", "_loop", "_waiter", "fault", "too_much")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop  # to ask which one runs takes a system call
        self.fault: str | None = None  # why nothing more comes
        self.too_much = False  # that is why
        self._waiter: asyncio.Future[None] | None = None
        self._hearing: asyncio.Timeout | None = None

    @abstractmethod
    def take(self) -> bytes | None:
        """The next whole message, if it is here."""

    @abstractmethod
    def has_message(self) -> bool:
        """Whether one is here."""

    def wake(self) -> None:
        """Something came."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, why: str) -> None:
        """Nothing more comes. Nobody goes on asking a person for a call that cannot get the answer."""
        self.fault = self.fault or why
        self.wake()
        if self._hearing is not None and not self.has_message():
            self._hearing.reschedule(self._loop.time())
            self._hearing = None

    async def next(self) -> bytes:
        """The next message; what came before the line broke is read before that is said (Lost)."""
        while (message := self.take()) is None:
            if self.fault is not None:
                raise TooMuch(self.fault) if self.too_much else Lost(self.fault, delivered=True)
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return message

    async def heard(self, hear: Hear, report: Told) -> bytes | None:
        """What is to be sent back; nothing, if the line breaks meanwhile or is broken already."""
        if self.fault is not None and isinstance(report, ToldQuestion):
            return None
        hearing = asyncio.timeout(None)
        try:
            async with hearing:
                self._hearing = None if self.fault else hearing
                return await hear(report)
        except TimeoutError:
            if not hearing.expired():
                raise
            return None
        finally:
            self._hearing = None
