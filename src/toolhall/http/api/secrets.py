"""`/api/secrets`: set, list and delete vault secrets; a value can be written and never read."""

from collections.abc import Awaitable, Callable, Container, Sequence
from functools import partial
from typing import Annotated, TypeVar

import msgspec

from toolhall.http.api.base import (
    EmptyBody,
    ItemHandlers,
    ManagementContext,
    dispatch_below,
    iso_time,
    json_response,
    parse_body,
    parse_sensitive_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.api.recent_calls import RecentCalls, last_use, tools_by_requirement
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.errors import Denied, Malformed, NotFound, Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.stores.common import Stale, StoreFailed
from toolhall.stores.vault.store import MAX_SECRET_BYTES, tenant_of, validate_name, validate_user
from toolhall.stores.vault.vault import SecretInfo, Vault

PREFIX = "/api/secrets/"
T = TypeVar("T")


class SecretValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new value of a secret; its repr hides it."""

    value: Annotated[str, msgspec.Meta(min_length=MIN_SECRET_LENGTH, max_length=MAX_SECRET_BYTES)]

    def __repr__(self) -> str:
        return "<value>"


class SecretsApi:
    """`/api/secrets`, for administrators."""

    def __init__(self, context: ManagementContext, vault: Vault, validator: RequestValidator) -> None:
        self._context = context
        self._vault = vault
        self._recent = RecentCalls(context.journal, context.clock)
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of secrets."""
        message = "there is nothing here; /api/secrets/NAME is a secret"
        return {
            "/api/secrets": {"GET": self.list, "DELETE": self.shred},
            PREFIX: dispatch_below(self._actions, message),
        }

    def _actions(self, request: HttpRequest) -> tuple[str, ItemHandlers] | None:
        match request.path_segments(PREFIX):
            case ["rotate"]:  # no secret can have this name here
                return "", {"POST": self._rotate}
            case [str(name)] if name:
                return name, {"PUT": self._set, "DELETE": self._remove}
            case _:
                return None

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/secrets`."""
        await respond(request, self._list(request))

    async def shred(self, request: HttpRequest) -> None:
        """`DELETE /api/secrets?user=U`."""
        await respond(request, self._shred(request))

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_admin(request.caller)
        query_parameters(request)
        return json_response({"secrets": await self._rows(await self._vault.list())})

    async def _set(self, request: HttpRequest, name: str) -> WireResponse:
        """`PUT /api/secrets/{name}`."""
        user = _user_parameter(request)
        validate_name(name)
        body = parse_sensitive_body(
            await read_json(request, self._validator),
            SecretValue,
            f'{{"value": "..."}} of {MIN_SECRET_LENGTH} or more letters',
        )
        value = Secret(body.value)

        async def apply() -> SecretInfo:
            await self._vault.set(name, value, user, request.caller.id)
            return next(each for each in await self._vault.list() if (each.name, each.user) == (name, user))

        info = await self._change(request, f"set secret {_display_name(name, user)}", apply)
        return json_response((await self._rows((info,)))[0])

    async def _remove(self, request: HttpRequest, name: str) -> WireResponse:
        """`DELETE /api/secrets/{name}`."""
        user = _user_parameter(request)
        parse_body(await read_json(request, self._validator), EmptyBody)

        async def apply() -> None:
            if not await self._vault.remove(name, user):
                raise NotFound("there is no such secret; 'toolhall secret list' shows what there is")

        await self._change(request, f"remove secret {_display_name(name, user)}", apply)
        return json_response({"removed": name})

    async def _shred(self, request: HttpRequest) -> WireResponse:
        """Delete everything of one user; never the hall's own secrets, which many users need."""
        user = _user_parameter(request)
        parse_body(await read_json(request, self._validator), EmptyBody)
        if user is None:
            raise Malformed("name the user whose secrets go: /api/secrets?user=USER")

        async def apply() -> None:
            if not await self._vault.shred(tenant_of(user)):
                raise NotFound("nothing is sealed for this user; 'toolhall secret list' shows what there is")

        await self._change(request, f"remove all secrets of {user}", apply)
        return json_response({"removed": user})

    async def _rotate(self, request: HttpRequest, _: str) -> WireResponse:
        """`POST /api/secrets/rotate`."""
        query_parameters(request)
        parse_body(await read_json(request, self._validator), EmptyBody)
        return json_response({"rotated": await self._change(request, "rotate secrets", self._vault.rotate)})

    async def _rows(self, secrets: Sequence[SecretInfo]) -> Sequence[JsonObject]:
        """Return secrets as JSON, each with the tools that declare it, and when a call last used it."""
        tools, calls = tools_by_requirement(self._context.registration), await self._recent.read()
        own = {(each.name, each.user) for each in await self._vault.list() if each.user is not None}
        rows: Sequence[JsonObject] = [
            {
                **_secret_json(each),
                "usedBy": (used_by := tools.get(("secret", each.name), [])),
                "usedAt": last_use(calls, used_by, partial(_uses, each, own)),
            }
            for each in secrets
        ]
        return rows

    async def _change(self, request: HttpRequest, action: str, apply: Callable[[], Awaitable[T]]) -> T:
        """Make and audit a change by its name alone: a digest of the value would allow to guess it."""

        async def apply_writable() -> T:
            if self._context.access.write_lock.read_only_reason is not None:
                raise Denied(self._context.access.write_lock.read_only_reason)
            try:
                return await apply()
            except (StoreFailed, Stale) as failed:
                raise Unavailable(f"nothing was changed: {failed}", detail=str(failed)) from None

        return await self._context.change(action, {}, request.caller, apply_writable)


def _uses(secret: SecretInfo, own: Container[tuple[str, str]], user: str) -> bool:
    """Whether calls for this user get this secret: their own one, or else that of the hall."""
    return secret.user == user if secret.user is not None else (secret.name, user) not in own


def _user_parameter(request: HttpRequest) -> str | None:
    """Return the user of the secret; None for the hall itself."""
    return validate_user(query_parameters(request, ("user",)).get("user"))


def _display_name(name: str, user: str | None) -> str:
    return name if user is None else f"{name} of {user}"


def _secret_json(secret: SecretInfo) -> JsonObject:
    return {
        "name": secret.name,
        "user": secret.user,
        "hint": secret.hint,
        "by": secret.by,
        "createdAt": iso_time(secret.created_at),
        "changedAt": iso_time(secret.changed_at),
        "usable": secret.usable,
    }
