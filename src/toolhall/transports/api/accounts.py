"""`/api/accounts` and `/api/providers`: what people have linked, and how they link more without the page."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from toolhall.accounts.broker import Broker
from toolhall.accounts.disconnecting import Disconnected, NotConnected
from toolhall.accounts.failures import LinkFailed, UnknownProvider
from toolhall.accounts.providers import Provider
from toolhall.accounts.replies import DeviceCode
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, NotFound
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject
from toolhall.pipeline.manage import Change
from toolhall.stores.accounts.base import Account, How, Link
from toolhall.stores.vault.words import checked_user
from toolhall.transports.api.answering import answer
from toolhall.transports.api.below import Actions, below
from toolhall.transports.api.bodies import body_as
from toolhall.transports.api.managed import DIALECT, Contradiction, Managed
from toolhall.transports.api.replies import reply
from toolhall.transports.api.requests import Nothing, body_of, parameters_of, read_body
from toolhall.transports.api.summaries import moment
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield

PREFIX = "/api/accounts/"
T = TypeVar("T")
_Scope: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_NOBODY = "an account belongs to a person: call with a credential of your own"
_OTHERS = "these accounts are another person's; you see your own, and the scope admin all"


class NewLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which account to link, and how: on the page, by a code for another device, or by the address that is pasted."""

    provider: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    scopes: Annotated[tuple[_Scope, ...], msgspec.Meta(max_length=100)] = ()
    how: How = "browser"


class Pasted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address that the browser was led to; it holds a code."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=16_384)]

    def __repr__(self) -> str:
        return "<pasted>"


class AccountsApi:
    """For everybody who is proven to be somebody, about their own; for callers who may manage the hall, about all."""

    def __init__(self, managed: Managed, broker: Broker, shield: Shield) -> None:
        self._managed = managed
        self._broker = broker
        self._shield = shield

    def endpoints(self) -> dict[str, Methods]:
        """The paths of accounts."""
        return {
            "/api/providers": {"GET": self.providers},
            "/api/accounts": {"GET": self.list, "POST": self.begin},
            PREFIX: below(
                self._actions, "there is nothing here; /api/accounts/ID is an account, /LINK/paste ends a link"
            ),
        }

    def _actions(self, exchange: Exchange) -> tuple[str, Actions] | None:
        match exchange.below(PREFIX):
            case [str(account_id)] if account_id:
                return account_id, {"DELETE": self._disconnect}
            case [str(link_id), "paste"] if link_id:
                return link_id, {"POST": self._paste}
            case _:
                return None

    async def providers(self, exchange: Exchange) -> None:
        """`GET /api/providers`."""
        await answer(exchange, self._providers(exchange))

    async def list(self, exchange: Exchange) -> None:
        """`GET /api/accounts`."""
        await answer(exchange, self._list(exchange))

    async def begin(self, exchange: Exchange) -> None:
        """`POST /api/accounts`."""
        await answer(exchange, self._begin(exchange))

    async def _providers(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        _person(exchange.caller)
        found = self._broker.providers()
        back = await asyncio.gather(*map(self._broker.redirect_uri, found))
        listed = [_provider(each, redirect_uri) for each, redirect_uri in zip(found, back, strict=True)]
        return reply({"providers": listed})

    async def _list(self, exchange: Exchange) -> Wire:
        user = checked_user(parameters_of(exchange, ("user",)).get("user"))
        own = _person(exchange.caller)
        if not self._managed.hall.manage.allows(exchange.caller):
            if user not in (None, own):
                raise Denied(_OTHERS)
            user = own
        return reply({"accounts": [_summary(each) for each in await self._broker.accounts(user)]})

    async def _begin(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        wanted = body_as(given, NewLink, '{"provider": "google", "scopes": ["..."], "how": "browser"}')
        _person(exchange.caller)

        async def apply() -> JsonObject:
            link = await self._broker.begin(exchange.caller, wanted.provider, wanted.scopes, None, wanted.how)
            return {**self._begun(link), **await self._shown(link, exchange.caller)}

        return reply(await self._change(exchange, f"begin to connect {wanted.provider}", given, apply), 202)

    def _begun(self, link: Link) -> JsonObject:
        return {
            "id": link.id,
            "url": self._broker.link_url(link),
            "check_url": self._broker.check_url(link),
            "expiresAt": moment(link.expires),
        }

    async def _shown(self, link: Link, caller: Caller) -> JsonObject:
        """What whoever asks shows to the person, who goes on elsewhere."""
        device, url = None, None
        if link.how == "device":
            device = _device(await self._broker.device(link))
        elif link.how == "paste":
            url, _ = await self._broker.consent(link.id, caller)
        return {"device": device, "authorize_url": url}

    async def _paste(self, exchange: Exchange, link_id: str) -> Wire:
        """`POST /api/accounts/{link}/paste`."""
        parameters_of(exchange)
        said = body_as(await body_of(exchange, self._shield), Pasted, '{"url": "..."}')

        async def apply() -> Link:
            return await self._broker.paste(link_id, exchange.caller, said.url)

        done = await self._change(exchange, f"link by pasting {link_id}", {}, apply)
        return reply({"id": done.id, "status": done.state})

    async def _disconnect(self, exchange: Exchange, account_id: str) -> Wire:
        """`DELETE /api/accounts/{id}`."""
        parameters_of(exchange)
        read_body(await body_of(exchange, self._shield), Nothing)

        async def apply() -> Disconnected:
            return await self._broker.disconnect(account_id, exchange.caller)

        gone = await self._change(exchange, f"disconnect {account_id}", {}, apply)
        return reply({"removed": gone.account.id, "unrevoked": gone.unrevoked})

    async def _change(self, exchange: Exchange, what: str, given: JsonObject, apply: Callable[[], Awaitable[T]]) -> T:
        """Recorded like any change; who may is said by what is done."""

        async def allowed() -> T:
            if self._managed.access.turns.frozen is not None:
                raise Denied(self._managed.access.turns.frozen)
            return await apply()

        try:
            return await self._managed.hall.manage(
                Change(what, DIALECT, given, personal=True), exchange.caller, allowed
            )
        except LinkFailed as failed:
            raise Contradiction(failed.message) from None
        except (UnknownProvider, NotConnected) as unknown:
            raise NotFound(unknown.message) from None


def _person(caller: Caller) -> str:
    """Whose accounts are meant; whoever proves nobody has none."""
    if caller.user is None:
        raise Denied(_NOBODY)
    return caller.user


def _provider(provider: Provider, redirect_uri: str | None) -> JsonObject:
    return {
        "name": provider.name,
        "issuer": provider.identity,
        "scopes": [*provider.scopes],
        "redirect_uri": redirect_uri,
    }


def _device(code: DeviceCode) -> JsonObject:
    return {
        "user_code": code.user_code,
        "verification_uri": code.verification_uri,
        "verification_uri_complete": code.verification_uri_complete,
        "interval": code.interval,
    }


def _summary(account: Account) -> JsonObject:
    return {
        "id": account.id,
        "user": account.user,
        "provider": account.provider,
        "issuer": account.issuer,
        "scopes": [*account.scopes],
        "state": account.state,
        "createdAt": moment(account.created_at),
        "refreshedAt": _or_none(account.refreshed_at),
        "expiresAt": _or_none(account.expires_at),
    }


def _or_none(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)
