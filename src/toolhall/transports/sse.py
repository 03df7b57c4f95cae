"""Server-sent events: how a stream of messages is written on a reply."""

from collections.abc import AsyncIterator

from toolhall.transports.exchange import Exchange
from toolhall.transports.stream import Item

_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # proxies must pass events on as they come
)


async def start_events(exchange: Exchange, *extra: tuple[bytes, bytes]) -> None:
    """Begin a reply that is a stream of events."""
    await exchange.start(200, (*_HEADERS, *extra))


async def write_events(exchange: Exchange, items: AsyncIterator[Item], prefix: str = "") -> None:
    """Write every message as an event, with an id where a prefix is given, then end the reply."""
    async for item in items:
        await exchange.part(_event(item, prefix) if item.message else b": keep-alive\n\n", more=True)
    await exchange.part(b"", more=False)


def primer(event_id: str, retry_ms: int | None) -> bytes:
    """An event without data, by whose id a client can resume before it has seen any message."""
    retry = f"retry: {retry_ms}\n" if retry_ms is not None else ""
    return f"id: {event_id}\n{retry}data: \n\n".encode()


def _event(item: Item, prefix: str) -> bytes:
    event_id = f"id: {prefix}{item.number}\n".encode() if prefix else b""
    return b"event: message\n" + event_id + b"data: " + item.message + b"\n\n"
