"""What a request of management says: the tool and the action in its path, its parameters, its body."""

from collections.abc import Collection
from datetime import date
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from toolhall.dialects import strict
from toolhall.model.errors import Malformed
from toolhall.model.json import Json
from toolhall.registrar.grants import NewGrant
from toolhall.registrar.keys import NewKey
from toolhall.transports.exchange import Exchange
from toolhall.transports.shield import Shield

PREFIX = "/api/tools/"
MOST_EVENTS = 1_000
USUAL_EVENTS = 100
_DIGEST = r"^sha256-[0-9a-f]{64}$"
_BODY_HEADERS = {b"content-type", b"content-encoding", b"transfer-encoding"}


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`{}`, or no body at all."""


class Activation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which text the person saw who activates it."""

    seen: Annotated[str, msgspec.Meta(pattern=_DIGEST)] | None = None


class Ending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first day without the tool, and what to call instead."""

    sunset: date | None = None
    successor: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None


Body: TypeAlias = Nothing | Activation | Ending | NewKey | NewGrant
B = TypeVar("B", Nothing, Activation, Ending, NewKey, NewGrant)
_WRITE: dict[type[Body], str] = {
    Nothing: "{}, or no body",
    Activation: '{"seen": "sha256-..."} with the document digest of what you looked at',
    Ending: '{"sunset": "2027-01-31", "successor": "Kit.tool@2.0.0"}, or one of them, or neither',
    NewKey: '{"name": "ci", "scopes": ["tools:*"], "expires": "90d"}, and "owner" or "shared" where you need them',
    NewGrant: '{"callers": "ci", "tools": "Kit.*"}, and "effect" or "conditions" where you need them',
}


def parameters_of(exchange: Exchange, known: Collection[str] = ()) -> dict[str, str]:
    """The query's parameters; one that nobody knows would be ignored, and the caller would not notice."""
    asked = exchange.parameters
    unknown = min(asked.keys() - set(known), default=None)
    if unknown is not None:
        instead = f"use {', '.join(sorted(known))}" if known else "leave it out"
        raise Malformed(f"there is no parameter {unknown[:32]!r} here; {instead}")
    return asked


def limit_of(asked: dict[str, str]) -> int:
    """How many events are asked for."""
    text = asked.get("limit", str(USUAL_EVENTS))
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MOST_EVENTS:
        return int(text)
    raise Malformed(f"limit is a number from 1 to {MOST_EVENTS}")


async def body_of(exchange: Exchange, shield: Shield) -> Json:
    """The body's value, of strict JSON; a request without a body need not say of which type it is."""
    headers = exchange.headers
    if not headers.keys() & _BODY_HEADERS and headers.get(b"content-length", b"0") == b"0":
        return {}
    return strict.decode(await shield.body(headers, exchange.receive))


def read_body(given: Json, kind: type[B]) -> B:
    """The body as an action wants it; Malformed says what to write instead."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"{str(error)[:160]}; write {_WRITE[kind]}") from None
