"""Paths below a prefix, where each shape of path has methods of its own."""

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPMethod
from typing import Any, TypeAlias

from toolhall.model.errors import NotFound
from toolhall.model.exchange import Wire
from toolhall.transports.api.answering import answer
from toolhall.transports.api.replies import refusal
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods

Work: TypeAlias = Callable[[Exchange, str], Coroutine[Any, Any, Wire]]  # what is done with the one that is named
Actions: TypeAlias = Mapping[str, Work]  # by HTTP method


def below(find: Callable[[Exchange], tuple[str, Actions] | None], nothing: str) -> Methods:
    """Every method leads to what `find` says of the path: whom it names, and what can be done; or there is nothing."""

    async def serve(exchange: Exchange) -> None:
        found = find(exchange)
        if found is None:
            await exchange.reply(refusal(NotFound(nothing)))
            return
        name, actions = found
        if exchange.method in actions:
            await answer(exchange, actions[exchange.method](exchange, name))
        else:
            await exchange.refuse(405, f"use {' or '.join(actions)}", (b"allow", ", ".join(actions).encode()))

    return {method.value: serve for method in HTTPMethod}
