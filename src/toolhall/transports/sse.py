"""Server-sent events: how a stream of messages is written on a reply."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from toolhall.transports.exchange import Exchange
from toolhall.transports.stream import Item, Stream

_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # proxies must pass events on as they come
)


class Place(msgspec.Struct, frozen=True):
    """From where a stream is read, and what its event ids start with (empty: events have no ids)."""

    prefix: str = ""
    after: int = 0
    resumed: bool = False


START = Place()
Permitted: TypeAlias = Callable[[], Awaitable[bool]]


async def start_events(exchange: Exchange) -> None:
    """Begin a reply that is a stream of events."""
    await exchange.start(200, _HEADERS)


async def write_events(
    exchange: Exchange, stream: Stream, place: Place = START, *, permitted: Permitted | None = None
) -> None:
    """Write every message as an event, then end the reply; `permitted` is asked before each one and ends it early."""
    async with aclosing(stream.read(place.after, resumed=place.resumed)) as items:
        async for item in items:
            if permitted is not None and not await permitted():
                break
            await exchange.part(_event(item, place.prefix) if item.message else b": keep-alive\n\n", more=True)
    # MCP 2025-11-25: who closes a connection before its stream has ended SHOULD say when to come back.
    sent_away = stream.retry_ms is not None and not stream.finished
    await exchange.part(f"retry: {stream.retry_ms}\n\n".encode() if sent_away else b"", more=False)


async def serve_events(
    exchange: Exchange, stream: Stream, place: Place = START, *, permitted: Permitted | None = None
) -> None:
    """Write events until the stream ends or the client hangs up."""
    writing = write_events(exchange, stream, place, permitted=permitted)
    tasks = [asyncio.create_task(writing), asyncio.create_task(hung_up(exchange))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def hung_up(exchange: Exchange) -> None:
    """Return once the client is gone, or the reply is complete."""
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


def primer(event_id: str, retry_ms: int | None) -> bytes:
    """An event without data, by whose id a client can resume before it has seen any message."""
    retry = f"retry: {retry_ms}\n" if retry_ms is not None else ""
    return f"id: {event_id}\n{retry}data: \n\n".encode()


def _event(item: Item, prefix: str) -> bytes:
    event_id = f"id: {prefix}{item.number}\n".encode() if prefix else b""
    return b"event: message\n" + event_id + b"data: " + item.message + b"\n\n"
