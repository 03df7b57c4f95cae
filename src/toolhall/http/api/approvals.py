"""`/api/approvals`: pending and decided approvals, and decisions with a code or a passkey instead of the web page."""

from typing import Annotated, Protocol

import msgspec

from toolhall.auth.authenticator import Headers
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
from toolhall.model.errors import Denied, Malformed, NotFound, Unavailable
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import WireResponse
from toolhall.pipeline.approval_differences import json_differences
from toolhall.pipeline.approvals import (
    NEEDS_SECOND_PERSON,
    ApprovalDecisions,
    TooLate,
    can_approve,
    passkey_purpose,
    person_of,
)
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.approvals import MAX_REASON_LENGTH, Approval, ApprovalMethod
from toolhall.stores.common import StoreFailed

PREFIX = "/api/approvals/"
_METHOD: ApprovalMethod = "cli"
DECIDED_SECONDS = 86_400.0  # how long decided approvals are listed
_PROOF_EXAMPLE = '{"code": "123456"}, or {"id": "...", "credential": {...}} of a passkey'


class ApprovalProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A code of the person's authenticator, or the response of a passkey to the options of this approval."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=16)] | None = None
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    credential: dict[str, Json] | None = None


class DenialReason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a call is denied, for whoever asked."""

    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_LENGTH)] | None = None


class PasskeyVerifier(Protocol):
    """Makes and verifies what passkeys sign."""

    async def authentication_options(self, person: str, purpose: str, headers: Headers) -> str | None:
        """Return the request options as JSON; None if the person has no passkey that works at this address."""
        ...

    async def verify(self, person: str, purpose: str, response: str, headers: Headers) -> None:
        """Return if the response proves the person's presence; raise WrongFactor otherwise."""
        ...


class ApprovalsApi:
    """`/api/approvals`: the approval page for terminals."""

    def __init__(
        self,
        decisions: ApprovalDecisions,
        factors: SecondFactors,
        passkeys: PasskeyVerifier,
        validator: RequestValidator,
    ) -> None:
        self._decisions = decisions
        self._factors = factors
        self._passkeys = passkeys
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of approvals."""
        return {"/api/approvals": {"GET": self.list}, PREFIX: {"POST": self.decide}}

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/approvals`."""
        await respond(request, self._list(request))

    async def decide(self, request: HttpRequest) -> None:
        """`POST /api/approvals/{id}/approve`, `/deny` and `/options`."""
        match request.path_segments(PREFIX):
            case [str(approval_id), "approve"] if approval_id:
                await respond(request, self._approve(request, approval_id))
            case [str(approval_id), "deny"] if approval_id:
                await respond(request, self._deny(request, approval_id))
            case [str(approval_id), "options"] if approval_id:
                await respond(request, self._options(request, approval_id))
            case _:
                message = "there is nothing here; below /api/approvals/ID are approve, deny and options"
                await request.reply(error_response(NotFound(message)))

    async def _list(self, request: HttpRequest) -> WireResponse:
        state = query_parameters(request, ("state",)).get("state", "pending")
        if state not in ("pending", "decided"):
            raise Malformed("state is pending or decided")
        caller = request.caller
        try:
            if state == "decided":
                found = await self._decisions.decided_for(caller, self._factors.clock() - DECIDED_SECONDS)
            else:
                found = await self._decisions.pending_for(caller)
            approvals = [await self._approval_json(each, caller) for each in found]
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return json_response({"approvals": approvals})

    async def _options(self, request: HttpRequest, approval_id: str) -> WireResponse:
        """Return the options of a passkey that signs this approval; whoever may not approve it gets none."""
        query_parameters(request)
        parse_body(await read_json(request, self._validator), EmptyBody)
        try:
            approval = await self._decisions.get_visible(approval_id, request.caller)
            if not can_approve(request.caller, approval):
                raise Denied(NEEDS_SECOND_PERSON)
            person, purpose = person_of(request.caller), passkey_purpose(approval)
            options = await self._passkeys.authentication_options(person, purpose, request.headers)
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        if options is None:
            raise WrongFactor(f"{person} has no passkey that works at this address; use a code, or add one")
        return json_response({"id": approval.id, "publicKey": msgspec.Raw(options.encode())})

    async def _approve(self, request: HttpRequest, approval_id: str) -> WireResponse:
        query_parameters(request)
        body = parse_sensitive_body(await read_json(request, self._validator), ApprovalProof, _PROOF_EXAMPLE)
        code, credential = body.code, body.credential
        if (code is None) is (credential is None) or (code is not None and body.id is not None):
            raise Malformed(f"this body cannot be read; write {_PROOF_EXAMPLE}")
        if body.id not in (None, approval_id):
            raise WrongFactor("these options are of another approval; ask for those of this one")

        async def prove(person: str, approval: Approval) -> None:
            if credential is not None:
                response = encode(credential).decode()
                await self._passkeys.verify(person, passkey_purpose(approval), response, request.headers)
                return
            if not any(each.kind == "totp" for each in await self._factors.factors_of(person)):
                raise WrongFactor(
                    f"{person} has no authenticator yet; add one: toolhall factor add totp {person} --url ..."
                )
            await self._factors.check_code(person, code or "")

        try:
            method: ApprovalMethod = _METHOD if credential is None else "passkey"
            approval = await self._decisions.approve(approval_id, request.caller, MANAGEMENT_DIALECT, method, prove)
        except TooLate as late:
            raise StateConflict(late.message) from None
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return json_response(await self._approval_json(approval, request.caller))

    async def _deny(self, request: HttpRequest, approval_id: str) -> WireResponse:
        query_parameters(request)
        body = parse_sensitive_body(await read_json(request, self._validator), DenialReason, '{"reason": "..."}, or {}')
        try:
            approval = await self._decisions.deny(approval_id, request.caller, MANAGEMENT_DIALECT, _METHOD, body.reason)
        except TooLate as late:
            raise StateConflict(late.message) from None
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        return json_response(await self._approval_json(approval, request.caller))

    async def describe(self, approval_id: str, caller: Caller) -> JsonObject:
        """Return one approval, if this caller may see it; raises NotFound or Denied."""
        try:
            return await self._approval_json(await self._decisions.get_visible(approval_id, caller), caller)
        except StoreFailed as failed:
            raise _unavailable(failed) from None

    async def needs(self, caller: Caller) -> JsonObject:
        """Return how many calls wait for a decision of this caller, and when the first question ends."""
        try:
            pending = await self._decisions.pending_for(caller)
        except StoreFailed as failed:
            raise _unavailable(failed) from None
        ends = [each.expires for each in pending if can_approve(caller, each)]
        return {"count": len(ends), "firstEndsAt": optional_time(min(ends, default=None))}

    async def _differences(self, approval: Approval, caller: Caller) -> JsonObject | None:
        """Return what a pending approval changes against the last one of its caller and tool that was approved."""
        before = await self._decisions.last_approved_for(caller, approval) if approval.state == "pending" else None
        if before is None:
            return None
        changes = [
            {"path": path, "before": _raw(old), "after": _raw(new)}
            for path, old, new in json_differences(before.shown, approval.shown)
        ]
        return {"since": iso_time(before.decided_at or before.created), "changes": changes}

    async def _approval_json(self, approval: Approval, caller: Caller) -> JsonObject:
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
            "reason": approval.reason,
            "differences": await self._differences(approval, caller),
            "mayApprove": can_approve(caller, approval),
            "url": self._decisions.approvals.url_for(approval.id),
        }


def _raw(value: str | None) -> Json:
    """Return JSON text as it is; null where there is no value."""
    return None if value is None else msgspec.Raw(value.encode())


def _unavailable(failed: StoreFailed) -> Unavailable:
    return Unavailable("approvals cannot be kept now; nothing was changed", detail=str(failed))
