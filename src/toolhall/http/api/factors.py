"""`/api/factors`: TOTP authenticators and passkey invitations of people.

An administrator's key alone cannot replace an existing factor: its present code is required.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from toolhall.http.api.base import (
    ManagementContext,
    error_response,
    iso_time,
    json_response,
    optional_time,
    parse_sensitive_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.errors import Denied, NotFound, Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.pipeline.approvals import person_of
from toolhall.pipeline.second_factors import SecondFactors
from toolhall.stores.common import StoreFailed
from toolhall.stores.factors import Factor

PREFIX = "/api/factors/"
T = TypeVar("T")
_Code: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=16)]
_Person: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, max_length=256, pattern=r"\A[^\x00-\x1f\ud800-\udfff]*\Z")
]


class NewFactor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The factor to add; `code` is one of a factor that the person already has."""

    kind: Literal["totp", "passkey"]
    person: _Person
    code: _Code | None = None


class FactorConfirmation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first code of a new authenticator."""

    enrolment: Annotated[str, msgspec.Meta(max_length=2_000)]
    code: _Code


class FactorRemoval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`code` is one of the factor's person."""

    code: _Code | None = None


class FactorsApi:
    """`/api/factors`, for administrators; an API key alone cannot add a second factor to a person who has one."""

    def __init__(
        self,
        context: ManagementContext,
        factors: SecondFactors,
        validator: RequestValidator,
        name: str,
        enroll_url: Callable[[str], str],
    ) -> None:
        self._context = context
        self._factors = factors
        self._validator = validator
        self._name = name
        self._enroll_url = enroll_url

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of factors."""
        return {
            "/api/factors": {"GET": self.list, "POST": self.add},
            "/api/factors/confirm": {"POST": self.confirm},
            PREFIX: {"DELETE": self.remove},
        }

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/factors`."""
        await respond(request, self._list(request))

    async def add(self, request: HttpRequest) -> None:
        """`POST /api/factors`."""
        await respond(request, self._add(request))

    async def confirm(self, request: HttpRequest) -> None:
        """`POST /api/factors/confirm`."""
        await respond(request, self._confirm(request))

    async def remove(self, request: HttpRequest) -> None:
        """`DELETE /api/factors/{id}`."""
        match request.path_segments(PREFIX):
            case [str(factor_id)] if factor_id:
                await respond(request, self._remove(request, factor_id))
            case _:
                await request.reply(error_response(NotFound("there is nothing here; /api/factors/ID is a factor")))

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_admin(request.caller)
        person = query_parameters(request, ("person",)).get("person")
        return json_response({"factors": [_factor_json(each) for each in await self._factors.store.all(person)]})

    async def _add(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        new_factor = parse_sensitive_body(body, NewFactor, '{"kind": "totp", "person": "alice"}')

        async def apply() -> JsonObject:
            if new_factor.person != person_of(request.caller):
                self._context.require_presence(request)
            await self._check_existing_factor(new_factor.person, new_factor.code)
            return await self._create(new_factor, request.caller.id)

        created = await self._change(request, f"add {new_factor.kind} {new_factor.person}", apply)
        return json_response({"kind": new_factor.kind, "person": new_factor.person, **created}, 201)

    async def _create(self, new_factor: NewFactor, by: str) -> JsonObject:
        if new_factor.kind == "passkey":
            token, expires = await self._factors.invite(new_factor.person, by)
            return {"url": self._enroll_url(token), "expiresAt": iso_time(expires)}
        secret, uri, enrolment = await self._factors.start_enrolment(new_factor.person, by, self._name)
        return {"secret": secret, "uri": uri, "enrolment": enrolment}

    async def _confirm(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        confirmation = parse_sensitive_body(body, FactorConfirmation, '{"enrolment": "...", "code": "123456"}')

        async def apply() -> Factor:
            return await self._factors.confirm_enrolment(confirmation.enrolment, confirmation.code)

        return json_response(_factor_json(await self._change(request, "confirm factor", apply)), 201)

    async def _remove(self, request: HttpRequest, factor_id: str) -> WireResponse:
        query_parameters(request)
        removal = parse_sensitive_body(
            await read_json(request, self._validator), FactorRemoval, '{"code": "123456"}, or {}'
        )

        async def apply() -> str:
            factor = await self._factors.store.find(factor_id)
            if factor is None:
                raise NotFound("there is no such factor; see toolhall factor list")
            if factor.kind != "invitation":
                self._context.require_presence(request)
                await self._check_existing_factor(factor.person, removal.code)
            await self._factors.store.remove(factor_id)
            return factor.id

        return json_response({"removed": await self._change(request, f"remove factor {factor_id}", apply)})

    async def _check_existing_factor(self, person: str, code: str | None) -> None:
        """Require a code of a factor that the person has; the owner of the data directory (CLI) is trusted."""
        existing = [] if self._context.origin == "cli" else await self._factors.factors_of(person)
        if not existing:
            return
        if code is None:
            raise Denied(
                f"{person} has a factor already; send a code of it, or do this in the hall's folder with --data"
            )
        await self._factors.check_code(person, code)

    async def _change(self, request: HttpRequest, action: str, apply: Callable[[], Awaitable[T]]) -> T:
        """Make and audit a change; the body is not recorded, because it holds codes."""
        try:
            return await self._context.change(action, {}, request.caller, apply)
        except StoreFailed as failed:
            raise Unavailable("factors cannot be kept now; nothing was changed", detail=str(failed)) from None


def _factor_json(factor: Factor) -> JsonObject:
    return {
        "id": factor.id,
        "person": factor.person,
        "kind": factor.kind,
        "by": factor.by,
        "createdAt": iso_time(factor.created_at),
        "usedAt": optional_time(factor.used_at),
        "expiresAt": optional_time(factor.expires),
    }
