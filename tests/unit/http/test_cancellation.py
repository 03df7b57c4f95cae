"""A call ends with its client, in every dialect over HTTP; one that answers at once is not watched."""

import asyncio
import json
from typing import Any

import pytest

from tests.harness.patience import patience
from toolhall import Toolhall, Toolkit, tool


class WaitingTools(Toolkit, name="kit"):
    """Tools that wait or return at once, with the outcome of their calls."""

    def __init__(self) -> None:
        self.waits, self.ended, self.leave = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def sit(self, stubborn: bool = False) -> str:
        """Wait until somebody says to leave."""
        self.waits.set()
        try:
            await self.leave.wait()
        except asyncio.CancelledError:
            self.ended.set()
            if not stubborn:
                raise
        return "left"

    @tool
    async def stand(self) -> str:
        """Answer at once."""
        return "stood"


def request(dialect: str, name: str, arguments: Any, **more: Any) -> tuple[str, Any]:
    """The path and the body of a call."""
    match dialect:
        case "rest":
            return f"/tools/kit/{name}", arguments
        case "oxp":
            return "/oxp/tools/call", {"request": {"tool_id": f"kit.{name}", "input": arguments, **more}}
        case "hub":
            return "/hub", {"type": "tool_request", "id": "1", "tool": "kit", "method": name, "params": arguments}
        case _:
            header = {"version": "1.0", "messageId": "1", "messageType": "request"}
            called = {"id": "kit", "capability": name, "parameters": arguments}
            return "/machine", {"header": header, "payload": {"tool": called}}


class Client:
    """One request, whose client may go."""

    def __init__(self, hall: Toolhall, path: str, message: Any) -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()
        self.received = 0
        self.talkative = False
        self._body = json.dumps(message).encode()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": None}
        self.task = asyncio.ensure_future(hall(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        self.received += 1
        if self.received == 1 or self.talkative:
            return {"type": "http.request", "body": self._body}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


DIALECTS = ["rest", "oxp", "hub", "machine"]
in_every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def outcomes(hall: Toolhall) -> list[str]:
    """How each call ended, as the records say."""
    return [record.outcome for record in hall.journal.records]  # type: ignore[union-attr]


@in_every_dialect
async def test_disconnect_cancels_call(dialect: str) -> None:
    bench = WaitingTools()
    with Toolhall(bench) as hall:
        client = Client(hall, *request(dialect, "sit", {}))
        async with asyncio.timeout(patience()):
            await bench.waits.wait()
            client.gone.set()
            await client.task
        assert bench.ended.is_set()
        assert client.sent == []
        assert outcomes(hall) == ["Cancelled"]
        assert client.task.cancelling() == 0


@in_every_dialect
async def test_disconnect_of_uncancellable_tool_lets_it_finish(dialect: str) -> None:
    bench = WaitingTools()
    with Toolhall(bench) as hall:
        client = Client(hall, *request(dialect, "sit", {"stubborn": True}))
        async with asyncio.timeout(patience()):
            await bench.waits.wait()
            client.gone.set()
            await client.task
        assert outcomes(hall) == ["ok"]


@in_every_dialect
async def test_connected_client_gets_response(dialect: str) -> None:
    bench = WaitingTools()
    with Toolhall(bench) as hall:
        client = Client(hall, *request(dialect, "sit", {}))
        async with asyncio.timeout(patience()):
            await bench.waits.wait()
            bench.leave.set()
            await client.task
        assert (client.sent[0]["status"], b"left" in client.sent[1]["body"]) == (200, True)
        assert outcomes(hall) == ["ok"]


@in_every_dialect
async def test_call_without_suspending_is_not_watched(dialect: str) -> None:
    with Toolhall(WaitingTools()) as hall:
        client = Client(hall, *request(dialect, "stand", {}))
        await client.task
        assert (client.sent[0]["status"], client.received) == (200, 1)


@in_every_dialect
async def test_server_cancellation_propagates(dialect: str) -> None:
    """A cancellation that is not ours passes through, also when the client has gone as well."""
    bench = WaitingTools()
    with Toolhall(bench) as hall:
        client = Client(hall, *request(dialect, "sit", {}))
        async with asyncio.timeout(patience()):
            await bench.waits.wait()
            client.gone.set()
            client.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await client.task
        assert outcomes(hall) == ["Cancelled"]


async def test_disconnect_of_oxp_call_with_id_does_not_cancel() -> None:
    bench = WaitingTools()
    with Toolhall(bench) as hall:
        first = Client(hall, *request("oxp", "sit", {}, call_id="c-1"))
        async with asyncio.timeout(patience()):
            await bench.waits.wait()
            first.gone.set()
            again = Client(hall, *request("oxp", "sit", {}, call_id="c-1"))
            bench.leave.set()
            await asyncio.gather(first.task, again.task)
        assert json.loads(again.sent[1]["body"])["result"]["value"] == "left"
        assert not bench.ended.is_set()
        assert outcomes(hall) == ["repeated", "ok"]


async def test_watch_gives_up_on_server_without_disconnect_event() -> None:
    bench = WaitingTools()
    with Toolhall(bench) as hall:
        client = Client(hall, *request("rest", "sit", {}))
        client.talkative = True
        async with asyncio.timeout(patience()):
            await bench.waits.wait()
            bench.leave.set()
            await client.task
        assert client.received < 6
        assert client.sent[0]["status"] == 200
