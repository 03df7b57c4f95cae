"""Runs servers on free ports of this machine, beside whatever else this process does."""

import asyncio
import socket
import threading
from collections.abc import Callable

from toolhall.examples.standins.messages import Answer, Reply, Request, converse

_HOST = "127.0.0.1"


class Running:
    """One thread with a loop of its own; each server is made for the address that it gets. Close it at the end."""

    def __init__(self, *makes: Callable[[str], Answer]) -> None:
        self._bound = [_bound() for _ in makes]
        self.urls = tuple(f"http://{_HOST}:{each.getsockname()[1]}" for each in self._bound)
        self._answers = [_guarded(url, make(url)) for url, make in zip(self.urls, makes, strict=True)]
        self._talks: dict[asyncio.Task[None], socket.socket] = {}
        self._loop = asyncio.SelectorEventLoop()  # which can watch sockets everywhere
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="stand-ins", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop at once, whatever runs; nothing is kept."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # which also ends every talk
            runner.run(self._serve())

    async def _serve(self) -> None:
        for bound, answer in zip(self._bound, self._answers, strict=True):
            self._loop.add_reader(bound, self._accept, bound, answer)
        await self._end.wait()
        for bound in self._bound:
            self._loop.remove_reader(bound)
            bound.close()

    def _accept(self, bound: socket.socket, answer: Answer) -> None:
        try:
            connection, _ = bound.accept()
        except OSError:  # it has gone again
            return
        connection.setblocking(False)
        task = self._loop.create_task(converse(connection, answer))
        self._talks[task] = connection
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._talks.pop(task).close()


def _bound() -> socket.socket:
    """Listens at once: who comes before the thread runs waits in line."""
    bound = socket.create_server((_HOST, 0), backlog=128)
    bound.setblocking(False)
    return bound


def _guarded(url: str, answer: Answer) -> Answer:
    """Only for requests by this very address: another name that leads here is somebody else's page (DNS rebinding)."""

    def guarded(request: Request) -> Reply:
        return answer(request) if f"http://{request.headers.get('host')}" == url else Reply(421)

    return guarded
