"""`/api/tools`, what is below it, and `/api/history`: routes to what is told and to what is changed."""

from collections.abc import Callable, Coroutine
from http import HTTPMethod
from typing import Any, TypeAlias

from toolhall.model.errors import Denied, NotFound, ToolhallError
from toolhall.model.exchange import Wire
from toolhall.transports.api.changes import Changes
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import refusal
from toolhall.transports.api.requests import PREFIX
from toolhall.transports.api.views import Views
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield

# What is done with one tool: the tool's id is the second argument.
Action: TypeAlias = Callable[[Exchange, str], Coroutine[Any, Any, Wire]]
_ITSELF = ""


class Api:
    """Answers callers who may manage the hall; every change goes through the hall's own door for changes."""

    def __init__(self, managed: Managed, shield: Shield) -> None:
        self.managed = managed
        self._views, changes = Views(managed), Changes(managed, shield)
        self._register = changes.register
        self._actions: dict[str, dict[str, Action]] = {
            _ITSELF: {"GET": self._views.tool, "DELETE": changes.remove},
            "activate": {"POST": changes.activate},
            "deactivate": {"POST": changes.deactivate},
            "deprecate": {"POST": changes.deprecate},
            "rollback": {"POST": changes.roll_back},
            "history": {"GET": self._views.history},
            "callers": {"GET": self._views.callers},
        }

    def endpoints(self) -> dict[str, Methods]:
        """Every path of management; below a tool, each action has methods of its own."""
        return {
            "/api/tools": {"GET": self._list, "POST": self._add},
            "/api/tools/": {method.value: self._below for method in HTTPMethod},
            "/api/history": {"GET": self._history},
        }

    async def _list(self, exchange: Exchange) -> None:
        await _answer(exchange, self._views.page(exchange))

    async def _add(self, exchange: Exchange) -> None:
        await _answer(exchange, self._register(exchange))

    async def _history(self, exchange: Exchange) -> None:
        await _answer(exchange, self._views.history(exchange))

    async def _below(self, exchange: Exchange) -> None:
        match exchange.below(PREFIX):
            case [str(tool_id)] if tool_id:
                methods = self._actions[_ITSELF]
            case [str(tool_id), str(action)] if tool_id and action:
                methods = self._actions.get(action, {})
            case _:
                tool_id, methods = "", {}
        if not methods:
            await exchange.reply(refusal(NotFound(self._no_such_place())))
        elif exchange.method in methods:
            await _answer(exchange, methods[exchange.method](exchange, tool_id))
        else:
            await exchange.refuse(405, f"use {' or '.join(methods)}", (b"allow", ", ".join(methods).encode()))

    def _no_such_place(self) -> str:
        below = ", ".join(filter(None, self._actions))
        return f"there is nothing here; /api/tools/ID is a tool (escape the / in its id), and below it are {below}"


async def _answer(exchange: Exchange, work: Coroutine[Any, Any, Wire]) -> None:
    if not _is_at_home(exchange):
        work.close()
        await exchange.reply(refusal(Denied("management takes no requests from pages of another origin")))
        return
    try:
        wire = await work
    except ToolhallError as error:
        wire = refusal(error)
    await exchange.reply(wire)


def _is_at_home(exchange: Exchange) -> bool:
    """Whether a browser sent this for a page of our own, if one did: any program on this machine serves pages."""
    origin = exchange.headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == exchange.headers.get(b"host")
