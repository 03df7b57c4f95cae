"""`/api/keys` and `/api/grants`: API keys and grants.

The secret of a key is in the response that creates it, and nowhere else.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import TypeAlias

from toolhall.http.api.base import (
    EmptyBody,
    ManagementContext,
    error_response,
    iso_time,
    json_response,
    optional_time,
    parse_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import ACT_AS, ADMIN, APPROVE, STEP_UP_FROM, effective_level
from toolhall.model.errors import NotFound
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.model.names import matches_any
from toolhall.registration.access import NewGrant, NewKey, grant_warnings
from toolhall.stores.access import ApiKey, Grant

KEYS_PREFIX = "/api/keys/"
GRANTS_PREFIX = "/api/grants/"
_STEP_UP_SCOPES = frozenset({ADMIN, APPROVE, ACT_AS})  # of keys that decide for other people
GrantCounter: TypeAlias = Callable[[], Awaitable[Counter[str]]]  # the calls that each grant decided


class KeysApi:
    """`/api/keys`: changes for administrators, the list for observers too."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self._context = context
        self._keys = context.access.keys
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of keys."""
        return {"/api/keys": {"GET": self.list, "POST": self.create}, KEYS_PREFIX: {"DELETE": self.revoke}}

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/keys`."""
        await respond(request, self._list(request))

    async def create(self, request: HttpRequest) -> None:
        """`POST /api/keys`."""
        await respond(request, self._create(request))

    async def revoke(self, request: HttpRequest) -> None:
        """`DELETE /api/keys/{id}`."""
        match request.path_segments(KEYS_PREFIX):
            case [str(key_id)] if key_id:
                await respond(request, self._revoke(request, key_id))
            case _:
                await request.reply(error_response(NotFound("there is nothing here; /api/keys/ID is a key")))

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        return json_response({"keys": [key_json(key) for key in self._keys.all]})

    async def _create(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        new_key = parse_body(body, NewKey)

        async def apply() -> tuple[ApiKey, str]:
            if not _STEP_UP_SCOPES.isdisjoint(new_key.scopes):
                self._context.require_presence(request)
            return await self._keys.create(new_key, request.caller.id)

        key, secret = await self._context.change(f"create key {new_key.name}", body, request.caller, apply)
        return json_response({**key_json(key), "secret": secret}, 201)

    async def _revoke(self, request: HttpRequest, key_id: str) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)

        async def apply() -> ApiKey:
            return await self._keys.revoke(key_id)

        return json_response(key_json(await self._context.change(f"revoke key {key_id}", body, request.caller, apply)))


def key_json(key: ApiKey) -> JsonObject:
    """Return a key as JSON, without its secret."""
    return {
        "id": key.id,
        "name": key.name,
        "owner": key.owner,
        "shared": key.shared,
        "scopes": [*key.scopes],
        "createdAt": iso_time(key.created_at),
        "expiresAt": optional_time(key.expires_at),
        "lastUsedAt": optional_time(key.last_used_at),
        "revokedAt": optional_time(key.revoked_at),
        "by": key.by,
    }


class GrantsApi:
    """`/api/grants`: changes for administrators, the list for observers too, with the calls that each decided."""

    def __init__(self, context: ManagementContext, validator: RequestValidator, count_calls: GrantCounter) -> None:
        self._context = context
        self._count_calls = count_calls
        self._grants = context.access.grants
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of grants."""
        return {"/api/grants": {"GET": self.list, "POST": self.add}, GRANTS_PREFIX: {"DELETE": self.remove}}

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/grants`."""
        await respond(request, self._list(request))

    async def add(self, request: HttpRequest) -> None:
        """`POST /api/grants`."""
        await respond(request, self._add(request))

    async def remove(self, request: HttpRequest) -> None:
        """`DELETE /api/grants/{id}`."""
        match request.path_segments(GRANTS_PREFIX):
            case [str(grant_id)] if grant_id:
                await respond(request, self._remove(request, grant_id))
            case _:
                await request.reply(error_response(NotFound("there is nothing here; /api/grants/ID is a grant")))

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        counts = await self._count_calls()
        grants = [{**grant_json(grant), "calls": counts[grant.id]} for grant in self._grants.all]
        return json_response({"grants": grants})

    async def _add(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        new_grant = parse_body(body, NewGrant)

        async def apply() -> Grant:
            if new_grant.effect == "permit" and self._reaches_step_up(new_grant.tools):
                self._context.require_presence(request)
            return await self._grants.add(new_grant, request.caller.id)

        action = f"{new_grant.effect} {new_grant.callers} {new_grant.tools}"
        grant = await self._context.change(action, body, request.caller, apply)
        return json_response({**grant_json(grant), "warnings": self._warnings(grant)}, 201)

    def _reaches_step_up(self, tools: str) -> bool:
        """Whether a pattern of tools matches one that asks its callers to step up, or none yet: it may be any."""
        registration = self._context.registration
        served = (entry.tool for entry in self._context.dispatcher.registry.snapshot.entries)
        known = chain(served, map(registration.tool, registration.all_records))
        matched = [tool for tool in known if matches_any((tools,), str(tool.id))]
        levels = (effective_level(tool, registration.level_overrides) for tool in matched)
        return not matched or max(levels) >= STEP_UP_FROM

    def _warnings(self, grant: Grant) -> Sequence[str]:
        callers = {key.name for key in self._context.access.keys.all}
        tools = {record.id for record in self._context.registration.all_records}
        tools.update(entry.id for entry in self._context.dispatcher.registry.snapshot.entries)
        return grant_warnings(grant, self._grants.all, callers, tools)

    async def _remove(self, request: HttpRequest, grant_id: str) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)

        async def apply() -> Grant:
            known = next((each for each in self._grants.all if each.id == grant_id), None)
            if known is None or (known.effect == "forbid" and self._reaches_step_up(known.tools)):
                self._context.require_presence(request)  # what one process does not know yet may forbid anything
            return await self._grants.remove(grant_id)

        removed = await self._context.change(f"remove grant {grant_id}", body, request.caller, apply)
        return json_response({"removed": removed.id})


def grant_json(grant: Grant) -> JsonObject:
    return {
        "id": grant.id,
        "effect": grant.effect,
        "callers": grant.callers,
        "tools": grant.tools,
        "conditions": [{"path": each.path, "oneOf": [*each.one_of]} for each in grant.conditions],
        "createdAt": iso_time(grant.created_at),
        "by": grant.by,
    }
