"""`/api/accounts` and `/api/providers`: linked OAuth accounts, and linking without the web page."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import eq
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from toolhall.http.api.base import (
    MANAGEMENT_DIALECT,
    EmptyBody,
    ItemHandlers,
    ManagementContext,
    StateConflict,
    dispatch_below,
    iso_time,
    json_response,
    optional_time,
    parse_body,
    parse_sensitive_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.api.recent_calls import RecentCalls, last_use, tools_by_requirement
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, NotFound
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.oauth.broker import Broker, NotConnected, UnlinkResult
from toolhall.oauth.client import DeviceCode
from toolhall.oauth.providers import LinkFailed, Provider, UnknownProvider, provider_display_name
from toolhall.pipeline.admin import AdminOperation
from toolhall.stores.accounts import Account, AccountLink, LinkMethod
from toolhall.stores.vault.store import validate_user

PREFIX = "/api/accounts/"
T = TypeVar("T")
_Scope: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_NO_PERSON = "an account belongs to a person: call with a credential of your own"
_OTHERS_ACCOUNTS = "these accounts are another person's; you see your own, and the scope admin all"


class NewLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The account to link, and how: by the web page, a device code, or a pasted redirect URL."""

    provider: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    scopes: Annotated[tuple[_Scope, ...], msgspec.Meta(max_length=100)] = ()
    how: LinkMethod = "browser"


class PastedUrl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The URL that the provider redirected the browser to; it holds a code."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=16_384)]

    def __repr__(self) -> str:
        return "<pasted>"


class AccountsApi:
    """`/api/accounts` and `/api/providers`: people manage their own accounts, administrators see everybody's."""

    def __init__(self, context: ManagementContext, broker: Broker, validator: RequestValidator) -> None:
        self._context = context
        self._broker = broker
        self._recent = RecentCalls(context.journal, context.clock)
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of accounts."""
        return {
            "/api/providers": {"GET": self.providers},
            "/api/accounts": {"GET": self.list, "POST": self.begin},
            PREFIX: dispatch_below(
                self._actions, "there is nothing here; /api/accounts/ID is an account, /LINK/paste ends a link"
            ),
        }

    def _actions(self, request: HttpRequest) -> tuple[str, ItemHandlers] | None:
        match request.path_segments(PREFIX):
            case [str(account_id)] if account_id:
                return account_id, {"DELETE": self._disconnect}
            case [str(link_id), "paste"] if link_id:
                return link_id, {"POST": self._paste}
            case _:
                return None

    async def providers(self, request: HttpRequest) -> None:
        """`GET /api/providers`."""
        await respond(request, self._providers(request))

    async def list(self, request: HttpRequest) -> None:
        """`GET /api/accounts`."""
        await respond(request, self._list(request))

    async def begin(self, request: HttpRequest) -> None:
        """`POST /api/accounts`."""
        await respond(request, self._begin(request))

    async def _providers(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        _require_person(request.caller)
        providers = self._broker.providers()
        redirect_uris = await asyncio.gather(*map(self._broker.redirect_uri, providers))
        listed = [
            _provider_json(each, redirect_uri) for each, redirect_uri in zip(providers, redirect_uris, strict=True)
        ]
        return json_response({"providers": listed})

    async def _list(self, request: HttpRequest) -> WireResponse:
        user = validate_user(query_parameters(request, ("user",)).get("user"))
        own = _require_person(request.caller)
        if not self._context.dispatcher.admin.is_allowed(request.caller):
            if user not in (None, own):
                raise Denied(_OTHERS_ACCOUNTS)
            user = own
        accounts = await self._broker.accounts(user)
        tools, calls = tools_by_requirement(self._context.registration), await self._recent.read()
        rows = [self._row(each, request.caller, tools, calls) for each in accounts]
        return json_response({"accounts": rows})

    async def needs(self, caller: Caller) -> JsonObject:
        """Return how many accounts have to be linked again, and the first: the caller's own, an administrator's all."""
        if caller.user is None:
            return {"count": 0, "first": None}
        user = None if self._context.dispatcher.admin.is_allowed(caller) else caller.user
        broken = [each for each in await self._broker.accounts(user) if each.state == "broken"]
        first = None
        if broken:
            first = {"person": broken[0].user, "providerName": provider_display_name(broken[0].provider)}
        return {"count": len(broken), "first": first}

    def _row(
        self,
        account: Account,
        caller: Caller,
        tools: Mapping[tuple[str, str], Sequence[str]],
        calls: Sequence[AuditRecord],
    ) -> JsonObject:
        """Return an account as JSON, with the tools that require one like it, and when a call last used it."""
        used_by = self._visible(caller, tools.get(("account", account.provider), []))
        used_at = last_use(calls, used_by, partial(eq, account.user))
        return {**_account_json(account), "usedBy": used_by, "usedAt": used_at}

    def _visible(self, caller: Caller, tools: Sequence[str]) -> Sequence[str]:
        """Return those of the tools that the caller may know of; an administrator knows all."""
        if self._context.dispatcher.admin.is_allowed(caller):
            return tools
        view = self._context.dispatcher.visible_snapshot(caller)
        known = {entry.id for entry in view.entries}
        return [each for each in tools if each in known]

    async def _begin(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        new_link = parse_sensitive_body(body, NewLink, '{"provider": "google", "scopes": ["..."], "how": "browser"}')
        _require_person(request.caller)

        async def apply() -> JsonObject:
            link = await self._broker.start_link(request.caller, new_link.provider, new_link.scopes, None, new_link.how)
            return {**self._link_json(link), **await self._next_step(link, request.caller)}

        return json_response(await self._change(request, f"begin to connect {new_link.provider}", body, apply), 202)

    def _link_json(self, link: AccountLink) -> JsonObject:
        return {
            "id": link.id,
            "url": self._broker.link_url(link),
            "check_url": self._broker.status_url(link),
            "expiresAt": iso_time(link.expires),
        }

    async def _next_step(self, link: AccountLink, caller: Caller) -> JsonObject:
        """Return what the client shows to the person: a device code, or a URL to visit."""
        device, url = None, None
        if link.how == "device":
            device = _device_json(await self._broker.start_device(link))
        elif link.how == "paste":
            url, _ = await self._broker.consent(link.id, caller)
        return {"device": device, "authorize_url": url}

    async def _paste(self, request: HttpRequest, link_id: str) -> WireResponse:
        """`POST /api/accounts/{link}/paste`."""
        query_parameters(request)
        pasted = parse_sensitive_body(await read_json(request, self._validator), PastedUrl, '{"url": "..."}')

        async def apply() -> AccountLink:
            return await self._broker.finish_pasted(link_id, request.caller, pasted.url)

        link = await self._change(request, f"link by pasting {link_id}", {}, apply)
        return json_response({"id": link.id, "status": link.state})

    async def _disconnect(self, request: HttpRequest, account_id: str) -> WireResponse:
        """`DELETE /api/accounts/{id}`."""
        query_parameters(request)
        parse_body(await read_json(request, self._validator), EmptyBody)

        async def apply() -> UnlinkResult:
            return await self._broker.disconnect(account_id, request.caller)

        result = await self._change(request, f"disconnect {account_id}", {}, apply)
        return json_response({"removed": result.account.id, "unrevoked": result.revocation_error})

    async def _change(
        self, request: HttpRequest, action: str, payload: JsonObject, apply: Callable[[], Awaitable[T]]
    ) -> T:
        """Make and audit a change; the operation itself checks permission."""

        async def allowed() -> T:
            if self._context.access.write_lock.read_only_reason is not None:
                raise Denied(self._context.access.write_lock.read_only_reason)
            return await apply()

        try:
            return await self._context.dispatcher.admin(
                AdminOperation(action, MANAGEMENT_DIALECT, payload, personal=True), request.caller, allowed
            )
        except LinkFailed as failed:
            raise StateConflict(failed.message) from None
        except (UnknownProvider, NotConnected) as unknown:
            raise NotFound(unknown.message) from None


def _require_person(caller: Caller) -> str:
    """Return the person of the caller; Denied if it has none."""
    if caller.user is None:
        raise Denied(_NO_PERSON)
    return caller.user


def _provider_json(provider: Provider, redirect_uri: str | None) -> JsonObject:
    return {
        "name": provider.name,
        "displayName": provider_display_name(provider.name),
        "issuer": provider.identity,
        "scopes": [*provider.scopes],
        "redirect_uri": redirect_uri,
    }


def _device_json(code: DeviceCode) -> JsonObject:
    return {
        "user_code": code.user_code,
        "verification_uri": code.verification_uri,
        "verification_uri_complete": code.verification_uri_complete,
        "interval": code.interval,
    }


def _account_json(account: Account) -> JsonObject:
    return {
        "id": account.id,
        "user": account.user,
        "person": account.user,
        "provider": account.provider,
        "providerName": provider_display_name(account.provider),
        "issuer": account.issuer,
        "scopes": [*account.scopes],
        "state": account.state,
        "linkedAt": iso_time(account.created_at),
        "refreshedAt": optional_time(account.refreshed_at),
        "expiresAt": optional_time(account.expires_at),
    }
