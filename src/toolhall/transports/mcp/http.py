"""The `/mcp` endpoint: all three revisions over HTTP."""

import asyncio

from toolhall.dialects.mcp.headers import check_headers, check_parameters, check_version
from toolhall.dialects.mcp.jsonrpc import Request, Unreadable, read_message
from toolhall.dialects.mcp.refusals import McpRefusal
from toolhall.dialects.mcp.revisions import MODERN
from toolhall.dialects.mcp.terms import Terms, is_modern, modern_terms
from toolhall.dialects.mcp.write import write_error
from toolhall.hall import Hall
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import Wire
from toolhall.runners.suspension import Noticed
from toolhall.transports.exchange import Exchange
from toolhall.transports.mcp.delivery import Delivery
from toolhall.transports.mcp.legacy_http import LegacyHttp
from toolhall.transports.mcp.modern import LISTEN, Modern
from toolhall.transports.mcp.refusing import refused
from toolhall.transports.mcp.storefront import meant
from toolhall.transports.shield import Shield
from toolhall.transports.sse import serve_events, start_events
from toolhall.transports.stream import Stream

_ACCEPTED = Wire(b"", 202)
_MODERN = MODERN.name.encode()


class McpHttp:
    """Reads one message per POST and lets the era it belongs to answer."""

    def __init__(self, hall: Hall, shield: Shield, modern: Modern, legacy: LegacyHttp) -> None:
        self._hall = hall
        self._shield = shield
        self._modern = modern
        self._legacy = legacy

    async def __call__(self, exchange: Exchange) -> None:
        """`POST /mcp`: answer one message."""
        body = await self._shield.body(exchange.headers, exchange.receive)
        try:
            message = read_message(body)
        except Unreadable as unreadable:
            error = refused(self._hall, unreadable.request, exchange.caller, len(body), unreadable.refusal)
            await exchange.reply(write_error(unreadable.id, error))
            return
        says_modern = exchange.headers.get(b"mcp-protocol-version") == _MODERN
        if isinstance(message, Request):
            if says_modern or is_modern(message):
                await self._answer(exchange, message, len(body))
            else:
                await self._legacy.request(exchange, message, len(body))
        elif says_modern:
            await exchange.reply(_ACCEPTED)
        else:
            await self._legacy.other_message(exchange, message)

    async def other(self, exchange: Exchange) -> None:
        """`GET` and `DELETE /mcp`: only the older revisions' sessions know them."""
        await self._legacy.other(exchange)

    def end_streams(self) -> None:
        """Say goodbye to every client that only listens; what runs may finish."""
        self._modern.subscriptions.close()
        self._legacy.end_streams()

    def close(self) -> None:
        """End every stream and every session."""
        self._modern.subscriptions.close()
        self._legacy.close()

    async def _answer(self, exchange: Exchange, request: Request, size: int) -> None:
        try:
            terms = self._terms(exchange, request)
        except McpRefusal as refusal:
            error = refused(self._hall, request, exchange.caller, size, refusal)
            await exchange.reply(self._modern.writer.error(request.id, error))
            return
        if request.method == LISTEN:
            await self._listen(exchange, request)
            return
        delivery = Delivery(exchange)
        try:
            work = self._modern.answer(request, terms, exchange.caller, delivery, size)
            wire = await Noticed(work, delivery.attend)
            if delivery.streaming:
                await delivery.finish(wire)
            else:
                await exchange.reply(wire)
        except asyncio.CancelledError:
            if not delivery.hung_up:
                raise
            _go_on()
        finally:
            if delivery.attending:
                await delivery.close()

    def _terms(self, exchange: Exchange, request: Request) -> Terms:
        """The request's terms, once its headers agree with its body; the tool is always the body's."""
        try:
            terms = modern_terms(request)
        except McpRefusal:
            check_version(exchange.headers, request)  # a header that says something else is the first thing wrong
            raise
        check_headers(exchange.headers, request, terms)
        if self._hall.registry.snapshot.repeats_in_headers and request.method == "tools/call":
            self._check_parameters(exchange, request)
        return terms

    def _check_parameters(self, exchange: Exchange, request: Request) -> None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        tool = self._hall.find(meant(self._hall, name), exchange.caller) if isinstance(name, str) else None
        if tool and isinstance(arguments, dict):
            check_parameters(exchange.headers, tool.header_parameters, arguments)

    async def _listen(self, exchange: Exchange, request: Request) -> None:
        stream = Stream()
        try:
            end = self._modern.subscriptions.listen(request, exchange.caller, stream)
        except ToolhallError as error:
            await exchange.reply(self._modern.writer.error(request.id, error))
            return
        exchange.take_place()()  # listeners have a bound of their own
        try:
            await start_events(exchange)
            await serve_events(exchange, stream, permitted=exchange.is_still_proven)
        finally:
            end()


def _go_on() -> None:
    """The cancellation was ours, because the client hung up; the server's task goes on."""
    task = asyncio.current_task()
    if task:
        task.uncancel()
