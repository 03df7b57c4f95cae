"""`/api/factors`: what people prove themselves with; a secret is in the reply that makes it, and nowhere else."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from toolhall.model.errors import Denied, NotFound, Unavailable
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject
from toolhall.pipeline.factors import Factors
from toolhall.stores.base import StoreFailed
from toolhall.stores.factors.base import Factor
from toolhall.transports.api.answering import answer
from toolhall.transports.api.bodies import body_as
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import refusal, reply
from toolhall.transports.api.requests import body_of, parameters_of
from toolhall.transports.api.summaries import moment
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield

PREFIX = "/api/factors/"
T = TypeVar("T")
_Code: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=16)]
_Person: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, max_length=256, pattern=r"\A[^\x00-\x1f\ud800-\udfff]*\Z")
]


class NewFactor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to add for whom; `code` is one of a factor that the person has already."""

    kind: Literal["totp", "passkey"]
    person: _Person
    code: _Code | None = None


class Confirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first code of a new authenticator."""

    enrolment: Annotated[str, msgspec.Meta(max_length=2_000)]
    code: _Code


class Removal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`code` is one of the person whose factor it is."""

    code: _Code | None = None


class FactorsApi:
    """For callers who may manage the hall: whoever could add a factor with a key alone could approve with it."""

    def __init__(
        self, managed: Managed, factors: Factors, shield: Shield, name: str, link: Callable[[str], str]
    ) -> None:
        self._managed = managed
        self._factors = factors
        self._shield = shield
        self._name = name
        self._link = link

    def endpoints(self) -> dict[str, Methods]:
        """The paths of factors."""
        return {
            "/api/factors": {"GET": self.list, "POST": self.add},
            "/api/factors/confirm": {"POST": self.confirm},
            PREFIX: {"DELETE": self.remove},
        }

    async def list(self, exchange: Exchange) -> None:
        """`GET /api/factors`."""
        await answer(exchange, self._list(exchange))

    async def add(self, exchange: Exchange) -> None:
        """`POST /api/factors`."""
        await answer(exchange, self._add(exchange))

    async def confirm(self, exchange: Exchange) -> None:
        """`POST /api/factors/confirm`."""
        await answer(exchange, self._confirm(exchange))

    async def remove(self, exchange: Exchange) -> None:
        """`DELETE /api/factors/{id}`."""
        match exchange.below(PREFIX):
            case [str(factor_id)] if factor_id:
                await answer(exchange, self._remove(exchange, factor_id))
            case _:
                await exchange.reply(refusal(NotFound("there is nothing here; /api/factors/ID is a factor")))

    async def _list(self, exchange: Exchange) -> Wire:
        self._managed.refuse_strangers(exchange.caller)
        person = parameters_of(exchange, ("person",)).get("person")
        return reply({"factors": [_summary(each) for each in await self._factors.store.all(person)]})

    async def _add(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        wanted = body_as(given, NewFactor, '{"kind": "totp", "person": "alice"}')

        async def apply() -> JsonObject:
            await self._prove(wanted.person, wanted.code)
            return await self._made(wanted, exchange.caller.id)

        made = await self._change(exchange, f"add {wanted.kind} {wanted.person}", apply)
        return reply({"kind": wanted.kind, "person": wanted.person, **made}, 201)

    async def _made(self, wanted: NewFactor, by: str) -> JsonObject:
        if wanted.kind == "passkey":
            word, until = await self._factors.invite(wanted.person, by)
            return {"url": self._link(word), "expiresAt": moment(until)}
        secret, address, sealed = await self._factors.draft(wanted.person, by, self._name)
        return {"secret": secret, "uri": address, "enrolment": sealed}

    async def _confirm(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        said = body_as(given, Confirmation, '{"enrolment": "...", "code": "123456"}')

        async def apply() -> Factor:
            return await self._factors.confirm(said.enrolment, said.code)

        return reply(_summary(await self._change(exchange, "confirm factor", apply)), 201)

    async def _remove(self, exchange: Exchange, factor_id: str) -> Wire:
        parameters_of(exchange)
        said = body_as(await body_of(exchange, self._shield), Removal, '{"code": "123456"}, or {}')

        async def apply() -> str:
            found = await self._factors.store.find(factor_id)
            if found is None:
                raise NotFound("there is no such factor; see toolhall factor list")
            if found.kind != "invitation":
                await self._prove(found.person, said.code)
            await self._factors.store.remove(factor_id)
            return found.id

        return reply({"removed": await self._change(exchange, f"remove factor {factor_id}", apply)})

    async def _prove(self, person: str, code: str | None) -> None:
        """Who has a factor is asked for it before another counts; whoever owns the folder of the hall is trusted."""
        known = [] if self._managed.origin == "cli" else await self._factors.of(person)
        if not known:
            return
        if code is None:
            raise Denied(
                f"{person} has a factor already; send a code of it, or do this in the hall's folder with --data"
            )
        await self._factors.check_code(person, code)

    async def _change(self, exchange: Exchange, what: str, apply: Callable[[], Awaitable[T]]) -> T:
        """Recorded without what was sent, because that holds codes."""
        try:
            return await self._managed.change(what, {}, exchange.caller, apply)
        except StoreFailed as failed:
            raise Unavailable("factors cannot be kept now; nothing was changed", detail=str(failed)) from None


def _summary(factor: Factor) -> JsonObject:
    return {
        "id": factor.id,
        "person": factor.person,
        "kind": factor.kind,
        "by": factor.by,
        "createdAt": moment(factor.created_at),
        "usedAt": None if factor.used_at is None else moment(factor.used_at),
        "expiresAt": None if factor.expires is None else moment(factor.expires),
    }
