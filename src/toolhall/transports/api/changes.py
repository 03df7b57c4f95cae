"""What is changed: tools are registered, activated, deprecated, rolled back, removed; each change is recorded."""

import asyncio
from datetime import UTC, datetime
from typing import cast

from toolhall.contracts.changes import Kind
from toolhall.dialects.catalogs import READABLE, readable
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.openapi.management import BEHAVIOURS
from toolhall.model.errors import Malformed
from toolhall.model.exchange import Wire
from toolhall.model.json import Json
from toolhall.registrar.papers import Source
from toolhall.stores.base import Kept
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import reply
from toolhall.transports.api.requests import Activation, Ending, Nothing, body_of, parameters_of, read_body
from toolhall.transports.api.summaries import findings, summaries, summary
from toolhall.transports.exchange import Exchange
from toolhall.transports.shield import Shield


class Changes:
    """Reads what is asked for, and has it done by the hall's own door for changes."""

    def __init__(self, managed: Managed, shield: Shield) -> None:
        self._managed = managed
        self._registrar = managed.registrar
        self._shield = shield

    async def register(self, exchange: Exchange) -> Wire:
        """`POST /api/tools`: a definition, in the dialect that is named or that it looks like."""
        asked = parameters_of(exchange, ("dialect", "behaviour"))
        stated, behaviour = asked.get("dialect"), _behaviour(asked.get("behaviour"))
        dialect = None if stated is None else readable(stated).name
        document = await body_of(exchange, self._shield)

        async def apply() -> tuple[Kept, ...]:
            source = self._source(exchange, behaviour)
            return await self._registrar.register(document, dialect or _looks_like(document), source)

        what = f"register {_name(document)}"
        kept = await self._managed.change(what, document, exchange.caller, apply)
        beside = self._registrar.names
        found = await asyncio.to_thread(findings, document, kept[0].dialect, beside)  # others are served meanwhile
        return reply({"tools": list(summaries(kept, self._registrar)), "findings": found}, 201)

    async def activate(self, exchange: Exchange, tool_id: str) -> Wire:
        """`POST /api/tools/{id}/activate`: serve it; what was quarantined only by who has seen its text."""
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        seen, by = read_body(given, Activation).seen, exchange.caller.id

        async def apply() -> Kept:
            return await self._registrar.activate(tool_id, by, seen)

        return self._told(await self._managed.change(f"activate {tool_id}", given, exchange.caller, apply))

    async def deactivate(self, exchange: Exchange, tool_id: str) -> Wire:
        """`POST /api/tools/{id}/deactivate`: serve it no longer."""
        given = await self._nothing(exchange)

        async def apply() -> Kept:
            return await self._registrar.deactivate(tool_id, exchange.caller.id)

        return self._told(await self._managed.change(f"deactivate {tool_id}", given, exchange.caller, apply))

    async def deprecate(self, exchange: Exchange, tool_id: str) -> Wire:
        """`POST /api/tools/{id}/deprecate`: say that it will go."""
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        ending = read_body(given, Ending)

        async def apply() -> Kept:
            self._refuse_past(ending)
            return await self._registrar.deprecate(tool_id, exchange.caller.id, ending.sunset, ending.successor)

        return self._told(await self._managed.change(f"deprecate {tool_id}", given, exchange.caller, apply))

    async def roll_back(self, exchange: Exchange, tool_id: str) -> Wire:
        """`POST /api/tools/{id}/rollback`: serve the version before again."""
        given = await self._nothing(exchange)

        async def apply() -> tuple[Kept, ...]:
            return await self._registrar.roll_back(tool_id, exchange.caller.id)

        kept = await self._managed.change(f"roll back {tool_id}", given, exchange.caller, apply)
        return reply({"tools": list(summaries(kept, self._registrar))})

    async def remove(self, exchange: Exchange, tool_id: str) -> Wire:
        """`DELETE /api/tools/{id}`."""
        given = await self._nothing(exchange)

        async def apply() -> str:
            found = self._registrar.find(tool_id).id
            await self._registrar.remove(found, exchange.caller.id)
            return found

        return reply({"removed": await self._managed.change(f"remove {tool_id}", given, exchange.caller, apply)})

    def _told(self, kept: Kept) -> Wire:
        return reply(summary(kept, self._registrar))

    async def _nothing(self, exchange: Exchange) -> Json:
        """The body of a request that has nothing to say."""
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        read_body(given, Nothing)
        return given

    def _source(self, exchange: Exchange, behaviour: Kind | None) -> Source:
        managed = self._managed
        return Source(managed.origin, exchange.caller.id, managed.clock(), managed.detail, behaviour)

    def _refuse_past(self, ending: Ending) -> None:
        today = datetime.fromtimestamp(self._managed.clock(), UTC).date()
        if ending.sunset is not None and ending.sunset < today:
            raise Malformed(f"{ending.sunset} is over; today is {today} (UTC), which is the earliest day to name")


def _behaviour(said: str | None) -> Kind | None:
    """What the author says of the change beyond what a definition can show."""
    if said is None or said in BEHAVIOURS:
        return cast("Kind | None", said)
    raise Malformed(f"behaviour is one of {', '.join(BEHAVIOURS)}; leave it out if nothing changed but the definition")


def _looks_like(document: Json) -> str:
    try:
        return detected(document).name
    except BadDocument:
        fix = f"this looks like no known definition; say what it is with ?dialect= and one of {', '.join(READABLE)}"
        raise BadDocument([Finding("", "convert/unknown", fix)]) from None


def _name(document: Json) -> str:
    """What a definition calls itself, for the record, as far as it can be told before it is read."""
    inner = document.get("tool", document.get("function", document)) if isinstance(document, dict) else None
    name = inner.get("id", inner.get("name")) if isinstance(inner, dict) else None
    return name if isinstance(name, str) else "?"
