"""Reads them once, and sends them."""

from functools import cache
from importlib.resources import files

from toolhall.transports.exchange import Exchange
from toolhall.transports.shield import Turned

_HOME = "toolhall.transports.pages.assets"
_KINDS = {"page.css": b"text/css; charset=utf-8", "page.js": b"text/javascript; charset=utf-8"}


async def send_asset(exchange: Exchange, name: str) -> None:
    """One of the files; Turned if there is none of this name."""
    kind = _KINDS.get(name)
    if kind is None:
        raise Turned(404, f"there is nothing here but {' and '.join(_KINDS)}")
    body = _content(name)
    headers = [
        (b"content-type", kind),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-cache"),
    ]
    await exchange.start(200, headers)
    await exchange.part(body, more=False)


@cache
def _content(name: str) -> bytes:
    return (files(_HOME) / name).read_bytes()
