"""Takes a Python MCP client through all that accept.py offers, and prints what came of it as one JSON object.

official.py and fast.py say which client; run them with the Python of `.venv-clients`:
official.py legacy|auto URL, or official.py legacy|auto -- COMMAND ARGUMENTS.
"""

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError

CHECK_SECONDS = 600.0  # the test that starts this process ends it sooner
POLL_SECONDS = 0.02
BULK = 120


class Driver:
    """One connected client, and the checks; each returns normally or raises."""

    def __init__(self) -> None:
        self.action = "accept"
        self.changes: asyncio.Queue[object] = asyncio.Queue()
        self.call: Callable[..., Awaitable[Any]]
        self.page: Callable[[str | None], Awaitable[Any]]
        self.session: Any

    async def on_message(self, message: object) -> None:
        """Keep notices of changes."""
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.changes.put_nowait(message)

    @property
    def content(self) -> dict[str, str] | None:
        """What the user fills in, if they do."""
        return {"name": "Ada"} if self.action == "accept" else None

    async def names(self) -> list[list[str]]:
        """The names of the tools, page by page."""
        pages: list[list[str]] = []
        cursor = None
        while True:
            result = await self.page(cursor)
            pages.append([tool.name for tool in result.tools])
            cursor = result.next_cursor
            if cursor is None:
                return pages

    async def check_list(self) -> None:
        """Every tool once, over more than one page."""
        pages = await self.names()
        names = [name for page in pages for name in page]
        assert len(pages) > 1, "only one page"
        assert len(set(names)) == len(names)
        assert {f"accept_bulk_{number:03}" for number in range(BULK)} <= set(names)

    async def check_structured(self) -> None:
        """A value that the client has checked against the tool's output schema."""
        result = await self.call("accept_add", {"a": 2, "b": 3})
        assert not result.is_error
        assert result.structured_content == {"sum": 5}
        assert json.loads(result.content[0].text) == {"sum": 5}

    async def check_bad_arguments(self) -> None:
        """The model is told, by a result."""
        result = await self.call("accept_add", {"a": "x"})
        assert result.is_error
        assert "/a" in result.content[0].text

    async def check_unknown_tool(self) -> None:
        """The program is told, by an error."""
        code = 0
        try:
            await self.call("no_such_tool", {})
        except MCPError as error:
            code = error.code
        assert code == -32602

    async def check_tool_error(self) -> None:
        """A tool that fails."""
        result = await self.call("accept_fail", {})
        assert result.is_error
        assert result.content[0].text == "accept_fail fails, as it promised"

    async def check_progress(self) -> None:
        """Ten steps, in order."""
        seen: list[tuple[float, float | None]] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            seen.append((done, total))

        result = await self.call("accept_slow", {"seconds": 0.1}, on_progress)
        assert result.content[0].text == "done"
        assert seen == [(step, 10) for step in range(1, 11)], seen

    async def check_cancel(self) -> None:
        """A call that is given up stops on the server, too."""
        before = (await self.call("accept_cancelled", {})).structured_content["count"]
        running = asyncio.Event()

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            running.set()

        call = asyncio.ensure_future(self.call("accept_slow", {"seconds": 60}, on_progress))
        await running.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(CHECK_SECONDS):
            # The count is the server's: there is no event to wait for.
            while (await self.call("accept_cancelled", {})).structured_content["count"] == before:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)

    async def check_list_changed(self) -> None:
        """The client hears of a new tool, and finds it."""
        if self.session.protocol_version >= "2026":
            async with listen(self.session, tools_list_changed=True) as changes:
                await self._toggled(lambda: anext(changes))
        else:
            while not self.changes.empty():
                self.changes.get_nowait()
            await self._toggled(self.changes.get)

    async def _toggled(self, told: Callable[[], Awaitable[object]]) -> None:
        await self.call("accept_toggle", {})
        await told()
        assert any("accept_dynamic" in page for page in await self.names())
        await self.call("accept_toggle", {})

    async def check_elicitation(self) -> None:
        """The user answers, then declines, then closes the form."""
        for self.action, expected in (("accept", "Hello, Ada!"), ("decline", "declined"), ("cancel", "cancel")):
            result = await self.call("accept_ask", {})
            assert expected in result.content[0].text, result
        self.action = "accept"

    async def check_parallel(self) -> None:
        """Forty calls at once."""
        results = await asyncio.gather(*(self.call("accept_add", {"a": n, "b": n}) for n in range(40)))
        assert [result.structured_content["sum"] for result in results] == [2 * n for n in range(40)]


Connect = Callable[[Driver, str, list[str]], AbstractAsyncContextManager[None]]


async def outcome(connect: Connect, era: str, *target: str) -> dict[str, object]:
    """What every check came to: None, or what went wrong."""
    driver = Driver()
    checks: dict[str, str | None] = {}
    async with connect(driver, era, list(target)):
        for name in [name for name in dir(driver) if name.startswith("check_")]:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await getattr(driver, name)()
                checks[name.removeprefix("check_")] = None
            except Exception:  # noqa: BLE001 - whatever it is, the test shows it
                checks[name.removeprefix("check_")] = traceback.format_exc()
        revision = driver.session.protocol_version
    return {"revision": revision, "checks": checks}


def main(connect: Connect) -> None:
    """Run the checks that the command line asks for."""
    logging.disable(logging.WARNING)
    sys.stdout.write(json.dumps(asyncio.run(outcome(connect, *sys.argv[1:]))) + "\n")
