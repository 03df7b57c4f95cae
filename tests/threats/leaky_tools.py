"""Tools that use a secret and show it to whoever looks, in every form and at every place; for a server of its own."""

import logging
from collections.abc import Callable
from typing import Any

from tests.unit.redaction.secret_encodings import EVERY, SECRET
from toolhall import Context, Image, Reply, Resource, ResourceLink, Text, ToolFailed, tool

NAME = "LEAKY"
_log = logging.getLogger("toolhall.leaky")
_own_log = logging.getLogger("leaky.http_client")
_own_log.addHandler(logging.StreamHandler())
leaky = tool(secrets=[NAME])  # every tool here uses the one secret


def encoded_secret(form: str) -> str:
    """The secret in this form."""
    return EVERY[form](SECRET)


@leaky
async def shows(form: str, where: str) -> Reply:
    """Put the secret into one part of the result."""
    return _RESULTS[where](encoded_secret(form))  # type: ignore[no-any-return]


_RESULTS: dict[str, Callable[[str], Any]] = {
    "plain": lambda text: text,
    "value": lambda text: {"deep": [{"er": f"<{text}>"}]},
    "key": lambda text: {text: 1},
    "block": lambda text: Text(f"see {text}."),
    "image": lambda text: Image(b"\x89PNG" + text.encode() + b"\x00\xff"),
    "resource": lambda text: Resource(uri="a:b", content=text.encode()),
    "resource text": lambda text: Resource(uri=f"a:{text}", content=text),
    "link": lambda text: ResourceLink(uri=f"https://h.example/?t={text}", name=text, description=text),
    "meta": lambda text: Reply((Text("x"),), meta={"note": [text]}),
    "block meta": lambda text: Text("x", meta={"note": text}),
    "items": lambda text: ["x", text[:7], text[7:]],
    "content and value": lambda text: Reply((Text(text[:7]),), value={"rest": text[7:]}),
    "value and content": lambda text: Reply((Text(text[7:]),), value={"rest": text[:7]}),
    "error": lambda text: Reply((Text(text),), is_error=True),
}


@leaky
async def in_pieces(ctx: Context, form: str, cut: int) -> Reply:
    """Tell the secret in two pieces: over events of both kinds, and over blocks."""
    text = encoded_secret(form)
    first, second = text[:cut], text[cut:]
    ctx.progress(1, None, first)
    ctx.progress(2, None, second)
    ctx.log(first, "error")
    ctx.log({"then": second}, "error")
    return Reply((Text(first), Text(second)))


@leaky
def in_pieces_in_thread(ctx: Context, form: str, cut: int) -> Reply:
    """The same in a thread."""
    text = encoded_secret(form)
    ctx.progress(1, None, text[:cut])
    ctx.progress(2, None, text[cut:])
    return Reply((Text(text[:cut]), Text(text[cut:])))


@leaky
async def refuses(form: str) -> str:
    """Fail with the secret in every text that an error has."""
    text = encoded_secret(form)
    raise ToolFailed(f"not with {text}", detail=f"detail {text}", prompt=f"try {text}")


@leaky
async def crashes(form: str) -> str:
    """Raise and log the secret, as a client of HTTP may."""
    text = encoded_secret(form)
    _log.error("cannot reach https://user:%s@h.example/?key=%s", text, text)
    _own_log.error("%s", text)
    try:
        raise ValueError(text)
    except ValueError as error:
        raise RuntimeError(f"https://h.example/?key={text}") from error


@leaky
def crashes_in_thread(form: str) -> str:
    """The same in a thread."""
    _log.error("%r", {"key": encoded_secret(form)})
    raise RuntimeError(encoded_secret(form))


@leaky
async def takes(note: str) -> str:
    """Take the secret as an argument, and repeat it."""
    return note


@leaky
async def floods(ctx: Context, count: int) -> str:
    """Tell more than anybody can hear."""
    for step in range(count):
        ctx.progress(step + 1, count, "step")
    return "told"


@leaky
def floods_in_thread(ctx: Context, count: int) -> str:
    """The same in a thread."""
    for step in range(count):
        ctx.progress(step + 1, count, "step")
    return "told"
