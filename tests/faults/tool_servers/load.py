"""Callers in every dialect, each with one call after the other until it is told to stop, and what each was answered."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator
from random import Random
from types import TracebackType
from typing import NamedTuple

from tests.faults.tool_servers.line import Line, PersistentHubSocket, UnexpectedMessage
from tests.faults.tool_servers.processes import KITS
from tests.harness.dialect_clients import DIALECT_CLIENTS, TEXT, Call, DialectClient, Outcome
from tests.harness.http_client import Response
from tests.harness.patience import patience
from toolhall.model.json import JsonObject

BESIDE = "Beside"
EVERY_WAY: tuple[Callable[[], DialectClient], ...] = (*DIALECT_CLIENTS, PersistentHubSocket)
TIMEOUTS = {"echo": 5.0, "write": 5.0, "keep": 25.0}
QUICK, SLOW = 0.004, 0.2
BREATH = 0.05  # between two calls of one caller, so that the machine has time for all others


class CallWithProgress(Call):
    """A call that wants to hear how far it is, in dialects that must be asked to say so."""

    def under(self, key: str) -> JsonObject:
        """With the token that asks for it."""
        told: JsonObject = {"_meta": {"progressToken": 1}} if key == "arguments" else {}
        return super().under(key) | told


class Answer(NamedTuple):
    """What became of one call; nothing said: no answer came in time."""

    nonce: str
    toolkit: str
    tool: str
    dialect: str
    said: Outcome | None
    began: float
    ended: float

    @property
    def ok(self) -> bool:
        """Whether it came back with its own value."""
        return self.said == Outcome("ok", self.nonce)


class Caller:
    """One caller of one toolkit in one dialect."""

    def __init__(self, way: DialectClient, toolkit: str, seed: int) -> None:
        self._way = way
        self._toolkit = toolkit
        self._chance = Random(f"{seed} {toolkit} {way.dialect}")
        self._numbers = itertools.count(1)

    async def work(self, line: Line, answers: list[Answer], stop: asyncio.Event) -> None:
        """Until told to stop, or left without an answer, which ends this connection's story."""
        while not stop.is_set():
            answer = await self._answer(line)
            answers.append(answer)
            if answer.said is None:
                line.abort()
                return
            await asyncio.sleep(BREATH)
        await line.close()

    async def _answer(self, line: Line) -> Answer:
        call, began = self._next(), time.monotonic()
        try:
            async with asyncio.timeout(TIMEOUTS[call.tool] + patience()):
                reply = await self._way.send(line, call)
            said = self._way.read(only_answer(reply), TEXT)
        except (TimeoutError, OSError, EOFError):
            said = None
        return Answer(
            call.arguments["nonce"], call.toolkit, call.tool, self._way.dialect, said, began, time.monotonic()
        )

    def _next(self) -> Call:
        """Most are quick, some tell something before they do anything, some have more time than others."""
        nonce = f"{self._toolkit}/{self._way.dialect}/{next(self._numbers)}".replace(" ", "-")
        if self._toolkit == BESIDE:
            return Call(None, BESIDE, "echo", {"nonce": nonce})
        pause = SLOW if self._chance.random() < 0.2 else self._chance.uniform(0, QUICK)
        tool = "keep" if self._chance.random() < 0.3 else "write"
        arguments = {"nonce": nonce, "pause": pause, "tell": self._chance.random() < 0.3}
        return CallWithProgress(None, self._toolkit, tool, arguments)


class Load:
    """All of them, for as long as the block runs; those still at work are answered before it ends."""

    def __init__(self, port: int, seed: int = 0) -> None:
        self.answers: list[Answer] = []
        self._stop = asyncio.Event()
        self._lines = [Line(port) for _ in EVERY_WAY for _ in (BESIDE, *KITS)]
        callers = [Caller(way(), toolkit, seed) for way in EVERY_WAY for toolkit in (BESIDE, *KITS)]
        self._work = list(zip(callers, self._lines, strict=True))
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Load":
        for caller, line in self._work:
            self._tasks.append(asyncio.create_task(caller.work(line, self.answers, self._stop)))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._stop.set()
        if kind is not None:
            for task in self._tasks:
                task.cancel()
        found = await asyncio.gather(*self._tasks, return_exceptions=True)
        for line in self._lines:
            line.abort()
        for failure in found:
            if kind is None and failure is not None:
                raise failure


def only_answer(reply: Response) -> Response:
    """The same reply, in which exactly one message answers; the others tell how far it is."""
    if reply.headers.get("content-type") == "text/event-stream" and len([*_answering(reply)]) != 1:
        raise UnexpectedMessage(reply.body)
    return reply


def _answering(reply: Response) -> Iterator[str]:
    for line in reply.body.decode().split("\n"):
        if line.startswith("data: {") and "id" in json.loads(line.removeprefix("data: ")):
            yield line
