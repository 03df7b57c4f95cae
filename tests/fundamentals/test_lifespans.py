"""Toolkits that open something before their first call, and close it when everything ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import pytest

from tests.unit.toolserver.calling import desk_of
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


async def test_a_toolkit_is_entered_once_before_the_first_call_and_left_at_the_end() -> None:
    async with Client(Database) as client:
        assert happened == ["connect"]
        assert (await client.call_named("Database_ask", {})).encoded == b"true"
        assert (await client.call_named("Database_ask_in_thread", {})).encoded == b"true"
        assert happened == ["connect"]
    assert happened == ["connect", "disconnect"]


async def test_they_are_left_in_reverse_and_one_that_fails_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with Client(Database, Cache):
        pass
    assert happened == ["connect", "warm", "cold", "disconnect"]
    assert "toolkit 'Cache' failed to be left" in caplog.text
    assert "the cache is gone" in caplog.text


async def test_one_that_cannot_be_entered_is_named_and_the_others_are_left() -> None:
    with pytest.raises(LifespanFailed) as caught:
        await Client(Database, Offline, Cache).__aenter__()
    assert str(caught.value) == (
        "toolkit 'Offline' could not be entered: ConnectionError: nobody listens at db.example:5432"
    )
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert happened == ["connect", "disconnect"]


async def test_the_hall_has_a_lifespan_of_its_own_around_those_of_its_toolkits() -> None:
    @asynccontextmanager
    async def lifespan(hall: Toolhall) -> AsyncGenerator[None]:
        happened.append(f"start {hall.config.name}")
        yield
        happened.append("stop")

    async with Toolhall(Database, lifespan=lifespan):
        assert happened == ["start toolhall", "connect"]
    assert happened == ["start toolhall", "connect", "disconnect", "stop"]


async def test_a_hall_that_cannot_start_says_that_it_is_its_lifespan() -> None:
    @asynccontextmanager
    async def lifespan(_: Toolhall) -> AsyncGenerator[None]:
        if not happened:
            raise KeyError("DSN")
        yield

    with pytest.raises(LifespanFailed, match="the lifespan of the hall could not be entered: KeyError: 'DSN'"):
        await Toolhall(Database, lifespan=lifespan).__aenter__()
    assert happened == []


async def test_what_one_task_must_leave_is_left_by_the_task_that_entered_it() -> None:
    kit = Grouped()
    hall = Toolhall(kit)
    await asyncio.create_task(hall.open())
    await asyncio.create_task(kit.ask())
    await asyncio.create_task(hall.settle())
    assert happened == ["left"]
    hall.close()


def test_a_loop_that_ends_leaves_what_nobody_left() -> None:
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


async def test_whoever_gives_up_waiting_leaves_nothing_behind() -> None:
    class Slow(Database):
        async def __aenter__(self) -> Self:
            await asyncio.sleep(60)
            return self

        @tool
        async def other(self) -> None:
            """Another one."""

    hall = Toolhall(Cache, Slow())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await hall.open()
    await hall.settle()
    hall.close()
    assert happened == ["warm", "cold"]


async def test_one_that_does_not_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(Database):
        async def __aexit__(self, *_: object) -> None:
            await asyncio.sleep(60)

    monkeypatch.setattr(lifespans, "LEAVE_SECONDS", 0.01)
    async with Client(Cache, Stuck()):
        pass
    assert happened == ["warm", "connect", "cold"]
    assert "toolkit 'Stuck' was not left within" in caplog.text


def test_half_a_context_manager_is_refused() -> None:
    class Half(Toolkit):
        async def __aenter__(self) -> Self:
            return self

        @tool
        async def ask(self) -> None:
            """Ask it."""

    with pytest.raises(BadDeclaration, match="toolkit 'Half' has __aenter__ and no __aexit__: write both, or neither"):
        Toolhall(Half())


def test_an_ordinary_context_manager_is_refused_unless_it_is_also_asynchronous() -> None:
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


def test_a_lifespan_that_cannot_be_called_is_refused_when_the_hall_is_made() -> None:
    wrong: Any = 3
    with pytest.raises(BadDeclaration, match="lifespan is 3; give a function that returns an async context manager"):
        Toolhall(lifespan=wrong)


async def test_a_toolkit_that_must_be_entered_comes_before_the_hall_is_opened() -> None:
    async with Client() as client:
        with pytest.raises(BadDeclaration, match="toolkit 'Database' has to be entered: add it before the hall is op"):
            client.hall.add(Database)
        assert await client.list_tools() == ()


async def test_a_tool_server_enters_and_leaves_them() -> None:
    async with desk_of(Database) as desk:
        assert await desk.result("ask", tool="Database") == {"result": True}
        assert happened == ["connect"]
    assert happened == ["connect", "disconnect"]


async def test_a_tool_server_that_cannot_start_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL), pytest.raises(LifespanFailed, match="toolkit 'Offline'"):
        async with desk_of(Offline):
            pass
