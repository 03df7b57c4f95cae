"""Answers a request of management, if it did not come from a page of somebody else."""

import logging
from collections.abc import Coroutine
from typing import Any

from toolhall.model.errors import Denied, ToolhallError
from toolhall.model.exchange import Wire
from toolhall.transports.api.replies import refusal
from toolhall.transports.exchange import Exchange

_log = logging.getLogger("toolhall.api")


async def answer(exchange: Exchange, work: Coroutine[Any, Any, Wire]) -> None:
    """Reply with what comes of the work, also if that is a refusal."""
    if not _is_at_home(exchange):
        work.close()
        await exchange.reply(refusal(Denied("management takes no requests from pages of another origin")))
        return
    try:
        wire = await work
    except ToolhallError as error:
        if error.detail:
            _log.warning("%s: %s", type(error).__name__, error.detail)
        wire = refusal(error)
    await exchange.reply(wire)


def _is_at_home(exchange: Exchange) -> bool:
    """Whether a browser sent this for a page of our own, if one did: any program on this machine serves pages."""
    origin = exchange.headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == exchange.headers.get(b"host")
