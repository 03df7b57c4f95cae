"""Small pieces of HTML, in which every text from outside is text."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias
from urllib.parse import quote

from toolhall.transports.exchange import Exchange
from toolhall.transports.pages.visible import marked

_ASSETS = "/approve/-/"
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="{assets}page.css">
<link rel="icon" href="data:,">
<script src="{assets}page.js" defer></script>
"""
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
# `same-origin` and not `no-referrer`: with that, browsers would not say that a form comes from here.
HEADERS: Headers = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"publickey-credentials-get=(self), publickey-credentials-create=(self)"),
    (b"cache-control", b"no-store"),
)


def text(value: str) -> str:
    """A text as it is; what would not show, or pose as something else, is marked."""
    return "".join(
        f'<mark class="hidden">{escape(piece)}</mark>' if hidden else escape(piece) for piece, hidden in marked(value)
    )


def paragraph(*parts: str, kind: str = "") -> str:
    """Parts that are HTML already."""
    return f"<p{_class(kind)}>{''.join(parts)}</p>\n"


def alert(message: str) -> str:
    """What went wrong, read out at once."""
    return f'<p class="alert" role="alert">{sentence(message)}</p>\n'


def sentence(message: str) -> str:
    """An error's words as a sentence of their own."""
    return text(f"{message[:1].upper()}{message[1:]}.")


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, the values being HTML already."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>\n" for name, value in pairs)
    return f"<dl>\n{rows}</dl>\n"


def form(word: str, action: str, *fields: str, attributes: str = "") -> str:
    """A form of this page; `word` proves that it is one of ours."""
    hidden = f'<input type="hidden" name="word" value="{escape(word)}">'
    todo = f'<input type="hidden" name="action" value="{escape(action)}">'
    return f'<form method="post"{attributes}>\n{hidden}\n{todo}\n{"".join(fields)}</form>\n'


def button(label: str, kind: str = "") -> str:
    """Sends its form."""
    return f'<button type="submit"{_class(kind)}>{escape(label)}</button>\n'


def document(title: str, *parts: str, hall: str = "Toolhall") -> bytes:
    """The page from its title on; `send_page` puts before it what depends on where it is."""
    body = f'<header><span class="hall">{text(hall)}</span></header>\n<main>\n<h1>{text(title)}</h1>\n'
    page = f"<title>{text(title)}</title>\n</head>\n<body>\n{body}{''.join(parts)}</main>\n</body>\n</html>\n"
    return page.encode("utf-8", "replace")


async def send_page(
    exchange: Exchange, prefix: str, status: int, page: bytes, *extra: tuple[bytes, bytes], headers: Headers = HEADERS
) -> None:
    """Send it with everything that keeps a browser from doing more with it than showing it.

    `prefix` is what the paths of the hall begin with, as the browser sees them.
    """
    page = _HEAD.format(assets=escape(prefix) + _ASSETS).encode() + page
    kind = ((b"content-type", b"text/html; charset=utf-8"), (b"content-length", b"%d" % len(page)))
    await exchange.start(status, [*kind, *headers, *extra])
    await exchange.part(page, more=False)


async def send_elsewhere(exchange: Exchange, prefix: str, *extra: tuple[bytes, bytes]) -> None:
    """After a form was taken: look at its page again, by an ordinary request that can be repeated."""
    await send_to(exchange, (prefix + quote(exchange.path)).encode(), *extra)


async def send_to(exchange: Exchange, location: bytes, *extra: tuple[bytes, bytes]) -> None:
    """The same to any address, which is sent as it is."""
    await exchange.start(303, [(b"location", location), (b"content-length", b"0"), *HEADERS, *extra])
    await exchange.part(b"", more=False)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
