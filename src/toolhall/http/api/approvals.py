"""`/api/approvals`: pending approvals, and decisions with a TOTP code instead of the web page."""

from typing import Annotated

import msgspec

from toolhall.http.api.base import (
    MANAGEMENT_DIALECT,
    EmptyBody,
    StateConflict,
    error_response,
    iso_time,
    json_response,
    optional_time,
    parse_body,
    parse_sensitive_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.errors import NotFound, Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.pipeline.approvals import ApprovalDecisions, TooLate, can_approve
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.approvals import Approval, ApprovalMethod
from toolhall.stores.common import StoreFailed

PREFIX = "/api/approvals/"
_METHOD: ApprovalMethod = "cli"


class ApprovalCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A code of the person's authenticator."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=16)]


class ApprovalsApi:
    """`/api/approvals`: the approval page for terminals."""

    def __init__(self, decisions: ApprovalDecisions, factors: SecondFactors, validator: RequestValidator) -> None:
        self._decisions = decisions
        self._factors = factors
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of approvals."""
        return {"/api/approvals": {"GET": self.list}, PREFIX: {"POST": self.decide}}

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/approvals`."""
        await respond(request, self._list(request))

    async def decide(self, request: HttpRequest) -> None:
        """`POST /api/approvals/{id}/approve` and `/deny`."""
        match request.path_segments(PREFIX):
            case [str(approval_id), "approve"] if approval_id:
                await respond(request, self._approve(request, approval_id))
            case [str(approval_id), "deny"] if approval_id:
                await respond(request, self._deny(request, approval_id))
            case _:
                message = "there is nothing here; below /api/approvals/ID are approve and deny"
                await request.reply(error_response(NotFound(message)))

    async def _list(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        caller = request.caller
        try:
            approvals = await self._decisions.pending_for(caller)
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return json_response({"approvals": [self._approval_json(each, caller) for each in approvals]})

    async def _approve(self, request: HttpRequest, approval_id: str) -> WireResponse:
        query_parameters(request)
        code = parse_sensitive_body(await read_json(request, self._validator), ApprovalCode, '{"code": "123456"}').code

        async def prove(person: str, _: Approval) -> None:
            if not any(each.kind == "totp" for each in await self._factors.factors_of(person)):
                raise WrongFactor(
                    f"{person} has no authenticator yet; add one: toolhall factor add totp {person} --url ..."
                )
            await self._factors.check_code(person, code)

        try:
            approval = await self._decisions.approve(approval_id, request.caller, MANAGEMENT_DIALECT, _METHOD, prove)
        except TooLate as late:
            raise StateConflict(late.message) from None
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return json_response(self._approval_json(approval, request.caller))

    async def _deny(self, request: HttpRequest, approval_id: str) -> WireResponse:
        query_parameters(request)
        parse_body(await read_json(request, self._validator), EmptyBody)
        try:
            approval = await self._decisions.deny(approval_id, request.caller, MANAGEMENT_DIALECT, _METHOD)
        except TooLate as late:
            raise StateConflict(late.message) from None
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return json_response(self._approval_json(approval, request.caller))

    def _approval_json(self, approval: Approval, caller: Caller) -> JsonObject:
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
            "createdAt": iso_time(approval.created),
            "expiresAt": iso_time(approval.expires),
            "approver": approval.approver,
            "method": approval.method,
            "decidedAt": optional_time(approval.decided_at),
            "mayApprove": can_approve(caller, approval),
            "url": self._decisions.approvals.url_for(approval.id),
        }


def _unavailable(failed: StoreFailed) -> Unavailable:
    return Unavailable("approvals cannot be kept now; nothing was changed", detail=str(failed))
