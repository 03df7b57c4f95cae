"""`/api/grants`: who may call what."""

from collections.abc import Sequence

from toolhall.model.errors import NotFound
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject
from toolhall.registrar.grants import NewGrant, warnings_about
from toolhall.stores.grants.base import Grant
from toolhall.transports.api.answering import answer
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import refusal, reply
from toolhall.transports.api.requests import Nothing, body_of, parameters_of, read_body
from toolhall.transports.api.summaries import moment
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield

PREFIX = "/api/grants/"


class GrantsApi:
    """For callers who may manage the hall."""

    def __init__(self, managed: Managed, shield: Shield) -> None:
        self._managed = managed
        self._grants = managed.access.grants
        self._shield = shield

    def endpoints(self) -> dict[str, Methods]:
        """The paths of grants."""
        return {"/api/grants": {"GET": self.list, "POST": self.add}, PREFIX: {"DELETE": self.remove}}

    async def list(self, exchange: Exchange) -> None:
        """`GET /api/grants`."""
        await answer(exchange, self._list(exchange))

    async def add(self, exchange: Exchange) -> None:
        """`POST /api/grants`."""
        await answer(exchange, self._add(exchange))

    async def remove(self, exchange: Exchange) -> None:
        """`DELETE /api/grants/{id}`."""
        match exchange.below(PREFIX):
            case [str(grant_id)] if grant_id:
                await answer(exchange, self._remove(exchange, grant_id))
            case _:
                await exchange.reply(refusal(NotFound("there is nothing here; /api/grants/ID is a grant")))

    async def _list(self, exchange: Exchange) -> Wire:
        self._managed.refuse_strangers(exchange.caller)
        parameters_of(exchange)
        return reply({"grants": [_summary(grant) for grant in self._grants.all]})

    async def _add(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        wanted = read_body(given, NewGrant)

        async def apply() -> Grant:
            return await self._grants.add(wanted, exchange.caller.id)

        what = f"{wanted.effect} {wanted.callers} {wanted.tools}"
        made = await self._managed.change(what, given, exchange.caller, apply)
        return reply({**_summary(made), "warnings": self._warnings(made)}, 201)

    def _warnings(self, made: Grant) -> Sequence[str]:
        callers = {key.name for key in self._managed.access.keys.all}
        tools = {kept.id for kept in self._managed.registrar.known}
        tools.update(entry.id for entry in self._managed.hall.registry.snapshot.entries)
        return warnings_about(made, self._grants.all, callers, tools)

    async def _remove(self, exchange: Exchange, grant_id: str) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        read_body(given, Nothing)

        async def apply() -> Grant:
            return await self._grants.remove(grant_id)

        gone = await self._managed.change(f"remove grant {grant_id}", given, exchange.caller, apply)
        return reply({"removed": gone.id})


def _summary(grant: Grant) -> JsonObject:
    return {
        "id": grant.id,
        "effect": grant.effect,
        "callers": grant.callers,
        "tools": grant.tools,
        "conditions": [{"path": each.path, "oneOf": [*each.one_of]} for each in grant.conditions],
        "createdAt": moment(grant.created_at),
        "by": grant.by,
    }
