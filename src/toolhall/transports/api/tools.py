"""`/api/tools`, what is below it, and `/api/history`: routes to what is told and to what is changed."""

from collections.abc import Callable, Coroutine
from http import HTTPMethod
from typing import Any, TypeAlias

from toolhall.model.errors import NotFound
from toolhall.model.exchange import Wire
from toolhall.transports.api.answering import answer
from toolhall.transports.api.audit import AuditApi
from toolhall.transports.api.changes import Changes
from toolhall.transports.api.grants import GrantsApi
from toolhall.transports.api.keys import KeysApi
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
        self._others = (KeysApi(managed, shield), GrantsApi(managed, shield), AuditApi(managed, shield))
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
        others = {path: methods for each in self._others for path, methods in each.endpoints().items()}
        return {
            **others,
            "/api/tools": {"GET": self._list, "POST": self._add},
            "/api/tools/": {method.value: self._below for method in HTTPMethod},
            "/api/history": {"GET": self._history},
        }

    async def _list(self, exchange: Exchange) -> None:
        await answer(exchange, self._views.page(exchange))

    async def _add(self, exchange: Exchange) -> None:
        await answer(exchange, self._register(exchange))

    async def _history(self, exchange: Exchange) -> None:
        await answer(exchange, self._views.history(exchange))

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
            await answer(exchange, methods[exchange.method](exchange, tool_id))
        else:
            await exchange.refuse(405, f"use {' or '.join(methods)}", (b"allow", ", ".join(methods).encode()))

    def _no_such_place(self) -> str:
        below = ", ".join(filter(None, self._actions))
        return f"there is nothing here; /api/tools/ID is a tool (escape the / in its id), and below it are {below}"
