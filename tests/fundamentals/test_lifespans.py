"""Toolkits that open something before their first call, and close it when everything ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import pytest

from tests.unit.toolserver.handler_harness import open_handler
from toolhall import BadDeclaration, LifespanFailed, Toolhall, Toolkit, tool
from toolhall.execution import lifespan as lifespans
from toolhall.testing import Client

happened: list[str] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    happened.clear()


class Database(Toolkit):
    """Has to be connected before it can be asked."""

    connected = False

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0)
        happened.append("connect")
        self.connected = True
        return self

    async def __aexit__(self, *_: object) -> None:
        happened.append("disconnect")
        self.connected = False

    @tool
    async def ask(self) -> bool:
        """Ask it."""
        return self.connected

    @tool
    def ask_in_thread(self) -> bool:
        """Ask it in a thread."""
        return self.connected


class Cache(Toolkit):
    """Depends on nothing."""

    async def __aenter__(self) -> Self:
        happened.append("warm")
        return self

    async def __aexit__(self, *_: object) -> None:
        happened.append("cold")
        raise OSError("the cache is gone")

    @tool
    async def look(self) -> None:
        """Look into it."""


class Offline(Toolkit):
    """Cannot be connected."""

    async def __aenter__(self) -> Self:
        raise ConnectionError("nobody listens at db.example:5432")

    async def __aexit__(self, *_: object) -> None:
        happened.append("never")

    @tool
    async def ask(self) -> None:
        """Ask it."""


class Grouped(Toolkit):
    """Holds a task group, which has to be left by the task that entered it."""

    async def __aenter__(self) -> Self:
        self.group = anyio.create_task_group()
        await self.group.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.group.cancel_scope.cancel()
        await self.group.__aexit__(None, None, None)
        happened.append("left")

    @tool
    async def ask(self) -> None:
        """Ask it."""
        self.group.start_soon(asyncio.sleep, 60)


async def test_toolkit_is_entered_once_and_exited_at_the_end() -> None:
    async with Client(Database) as client:
        assert happened == ["connect"]
        assert (await client.call_named("Database_ask", {})).encoded == b"true"
        assert (await client.call_named("Database_ask_in_thread", {})).encoded == b"true"
        assert happened == ["connect"]
    assert happened == ["connect", "disconnect"]


async def test_toolkits_are_exited_in_reverse_despite_errors(caplog: pytest.LogCaptureFixture) -> None:
    async with Client(Database, Cache):
        pass
    assert happened == ["connect", "warm", "cold", "disconnect"]
    assert "toolkit 'Cache' failed to be left" in caplog.text
    assert "the cache is gone" in caplog.text


async def test_failed_toolkit_is_named_and_others_are_exited() -> None:
    with pytest.raises(LifespanFailed) as caught:
        await Client(Database, Offline, Cache).__aenter__()
    assert str(caught.value) == (
        "toolkit 'Offline' could not be entered: ConnectionError: nobody listens at db.example:5432"
    )
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert happened == ["connect", "disconnect"]


async def test_hall_lifespan_surrounds_the_toolkits() -> None:
    @asynccontextmanager
    async def lifespan(hall: Toolhall) -> AsyncGenerator[None]:
        happened.append(f"start {hall.config.name}")
        yield
        happened.append("stop")

    async with Toolhall(Database, lifespan=lifespan):
        assert happened == ["start toolhall", "connect"]
    assert happened == ["start toolhall", "connect", "disconnect", "stop"]


async def test_failed_hall_lifespan_is_named() -> None:
    @asynccontextmanager
    async def lifespan(_: Toolhall) -> AsyncGenerator[None]:
        if not happened:
            raise KeyError("DSN")
        yield

    with pytest.raises(LifespanFailed, match="the lifespan of the hall could not be entered: KeyError: 'DSN'"):
        await Toolhall(Database, lifespan=lifespan).__aenter__()
    assert happened == []


async def test_enter_and_exit_run_in_the_same_task() -> None:
    kit = Grouped()
    hall = Toolhall(kit)
    await asyncio.create_task(hall.open())
    await asyncio.create_task(kit.ask())
    await asyncio.create_task(hall.settle())
    assert happened == ["left"]
    hall.close()


def test_end_of_the_loop_exits_open_toolkits() -> None:
    hall = Toolhall(Database)
    asyncio.run(hall.open())
    assert happened == ["connect", "disconnect"]
    asyncio.run(hall.open())  # in another loop it is entered again
    assert happened == ["connect", "disconnect"] * 2
    hall.close()


async def test_opening_twice_enters_once() -> None:
    hall = Toolhall(Database)
    await asyncio.gather(hall.open(), hall.open())
    await hall.open()
    await hall.settle()
    hall.close()
    assert happened == ["connect", "disconnect"]


async def test_cancelled_open_exits_what_was_entered() -> None:
    entering = asyncio.Event()

    class Slow(Database):
        async def __aenter__(self) -> Self:
            entering.set()
            await asyncio.sleep(60)
            return self

        @tool
        async def other(self) -> None:
            """Another one."""

    hall = Toolhall(Cache, Slow())
    opening = asyncio.ensure_future(hall.open())
    await entering.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await hall.settle()
    hall.close()
    assert happened == ["warm", "cold"]


async def test_hanging_exit_is_abandoned(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Database):
        async def __aexit__(self, *_: object) -> None:
            await asyncio.sleep(60)

    monkeypatch.setattr(lifespans, "LEAVE_SECONDS", 0.01)
    async with Client(Cache, Stuck()):
        pass
    assert happened == ["warm", "connect", "cold"]
    assert "toolkit 'Stuck' was not left within" in caplog.text


def test_toolkit_with_one_of_aenter_and_aexit_is_refused() -> None:
    class Half(Toolkit):
        async def __aenter__(self) -> Self:
            return self

        @tool
        async def ask(self) -> None:
            """Ask it."""

    with pytest.raises(BadDeclaration, match="toolkit 'Half' has __aenter__ and no __aexit__: write both, or neither"):
        Toolhall(Half())


def test_sync_context_manager_is_refused_unless_also_async() -> None:
    class Ordinary(Toolkit):
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        @tool(effect="reads")
        async def ask(self) -> None:
            """Ask it."""

    class Both(Ordinary):
        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None: ...

    with pytest.raises(
        BadDeclaration, match="'Ordinary' has __enter__ or __exit__, which are never called: write 'async"
    ):
        Toolhall(Ordinary())
    Toolhall(Both()).close()


def test_lifespan_that_is_not_callable_is_refused() -> None:
    wrong: Any = 3
    with pytest.raises(BadDeclaration, match="lifespan is 3; give a function that returns an async context manager"):
        Toolhall(lifespan=wrong)


async def test_toolkit_with_lifespan_cannot_be_added_to_an_open_hall() -> None:
    async with Client() as client:
        with pytest.raises(BadDeclaration, match="toolkit 'Database' has to be entered: add it before the hall is op"):
            client.hall.add(Database)
        assert await client.list_tools() == ()


async def test_tool_server_enters_and_exits_toolkits() -> None:
    async with open_handler(Database) as harness:
        assert await harness.result("ask", tool="Database") == {"result": True}
        assert happened == ["connect"]
    assert happened == ["connect", "disconnect"]


async def test_tool_server_start_failure_names_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL), pytest.raises(LifespanFailed, match="toolkit 'Offline'"):
        async with open_handler(Offline):
            pass
