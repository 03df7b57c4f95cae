"""`/api/approvals`: what waits for a person, and the decision; who may decide is no matter of management."""

from typing import Annotated

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.errors import NotFound, Unavailable
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject
from toolhall.pipeline.deciding import Deciding, TooLate, may_approve
from toolhall.pipeline.factors import Factors, WrongFactor
from toolhall.stores.approvals.base import Approval, Method
from toolhall.stores.base import StoreFailed
from toolhall.transports.api.answering import answer
from toolhall.transports.api.bodies import body_as
from toolhall.transports.api.managed import DIALECT, Contradiction
from toolhall.transports.api.replies import refusal, reply
from toolhall.transports.api.requests import Nothing, body_of, parameters_of, read_body
from toolhall.transports.api.summaries import moment
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield

PREFIX = "/api/approvals/"
_METHOD: Method = "cli"


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What proves that the person is there now."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=16)]


class ApprovalsApi:
    """The same as the page, for people who sit at a terminal."""

    def __init__(self, deciding: Deciding, factors: Factors, shield: Shield) -> None:
        self._deciding = deciding
        self._factors = factors
        self._shield = shield

    def endpoints(self) -> dict[str, Methods]:
        """The paths of approvals."""
        return {"/api/approvals": {"GET": self.list}, PREFIX: {"POST": self.decide}}

    async def list(self, exchange: Exchange) -> None:
        """`GET /api/approvals`."""
        await answer(exchange, self._list(exchange))

    async def decide(self, exchange: Exchange) -> None:
        """`POST /api/approvals/{id}/approve` and `/deny`."""
        match exchange.below(PREFIX):
            case [str(approval_id), "approve"] if approval_id:
                await answer(exchange, self._approve(exchange, approval_id))
            case [str(approval_id), "deny"] if approval_id:
                await answer(exchange, self._deny(exchange, approval_id))
            case _:
                nothing = "there is nothing here; below /api/approvals/ID are approve and deny"
                await exchange.reply(refusal(NotFound(nothing)))

    async def _list(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        caller = exchange.caller
        try:
            found = await self._deciding.waiting(caller)
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return reply({"approvals": [self._summary(each, caller) for each in found]})

    async def _approve(self, exchange: Exchange, approval_id: str) -> Wire:
        parameters_of(exchange)
        code = body_as(await body_of(exchange, self._shield), Code, '{"code": "123456"}').code

        async def prove(person: str, _: Approval) -> None:
            if not any(each.kind == "totp" for each in await self._factors.of(person)):
                raise WrongFactor(
                    f"{person} has no authenticator yet; add one: toolhall factor add totp {person} --url ..."
                )
            await self._factors.check_code(person, code)

        try:
            done = await self._deciding.approve(approval_id, exchange.caller, DIALECT, _METHOD, prove)
        except TooLate as late:
            raise Contradiction(late.message) from None
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return reply(self._summary(done, exchange.caller))

    async def _deny(self, exchange: Exchange, approval_id: str) -> Wire:
        parameters_of(exchange)
        read_body(await body_of(exchange, self._shield), Nothing)
        try:
            done = await self._deciding.deny(approval_id, exchange.caller, DIALECT, _METHOD)
        except TooLate as late:
            raise Contradiction(late.message) from None
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return reply(self._summary(done, exchange.caller))

    def _summary(self, approval: Approval, caller: Caller) -> JsonObject:
        return {
            "id": approval.id,
            "state": approval.state,
            "how": approval.how,
            "tool": approval.tool,
            "level": approval.level,
            "effect": approval.effect,
            "caller": approval.caller,
            "person": approval.person,
            "actingFor": approval.acting_for,
            "dialect": approval.dialect,
            "shown": approval.shown.decode("utf-8", "replace"),
            "shownSha256": approval.shown_sha256,
            "argumentsSha256": approval.arguments_sha256,
            "definitionSha256": approval.definition_sha256,
            "codeSha256": approval.code_sha256,
            "createdAt": moment(approval.created),
            "expiresAt": moment(approval.expires),
            "approver": approval.approver,
            "method": approval.method,
            "decidedAt": None if approval.decided_at is None else moment(approval.decided_at),
            "mayApprove": may_approve(caller, approval),
            "url": self._deciding.approvals.url_of(approval.id),
        }


def _unavailable(failed: StoreFailed) -> Unavailable:
    return Unavailable("approvals cannot be kept now; nothing was changed", detail=str(failed))
