"""`/api/secrets`: what tools are supplied with; a value can be set here, and read nowhere."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import msgspec

from toolhall.model.errors import Denied, Malformed, NotFound, Unavailable
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject
from toolhall.model.secret import SHORTEST, Secret
from toolhall.stores.base import Stale, StoreFailed
from toolhall.stores.vault.base import tenant_of
from toolhall.stores.vault.vault import SecretInfo, Vault
from toolhall.stores.vault.words import MOST_BYTES, checked_name, checked_user
from toolhall.transports.api.answering import answer
from toolhall.transports.api.below import Actions, below
from toolhall.transports.api.bodies import body_as
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import reply
from toolhall.transports.api.requests import Nothing, body_of, parameters_of, read_body
from toolhall.transports.api.summaries import moment
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield

PREFIX = "/api/secrets/"
T = TypeVar("T")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is set; on its way to the vault it is in no text that could be shown."""

    value: Annotated[str, msgspec.Meta(min_length=SHORTEST, max_length=MOST_BYTES)]

    def __repr__(self) -> str:
        return "<value>"


class SecretsApi:
    """For callers who may manage the hall."""

    def __init__(self, managed: Managed, vault: Vault, shield: Shield) -> None:
        self._managed = managed
        self._vault = vault
        self._shield = shield

    def endpoints(self) -> dict[str, Methods]:
        """The paths of secrets."""
        nothing = "there is nothing here; /api/secrets/NAME is a secret"
        return {"/api/secrets": {"GET": self.list, "DELETE": self.shred}, PREFIX: below(self._actions, nothing)}

    def _actions(self, exchange: Exchange) -> tuple[str, Actions] | None:
        match exchange.below(PREFIX):
            case ["rotate"]:  # so no secret is called that here
                return "", {"POST": self._rotate}
            case [str(name)] if name:
                return name, {"PUT": self._set, "DELETE": self._remove}
            case _:
                return None

    async def list(self, exchange: Exchange) -> None:
        """`GET /api/secrets`."""
        await answer(exchange, self._list(exchange))

    async def shred(self, exchange: Exchange) -> None:
        """`DELETE /api/secrets?user=U`."""
        await answer(exchange, self._shred(exchange))

    async def _list(self, exchange: Exchange) -> Wire:
        self._managed.refuse_strangers(exchange.caller)
        parameters_of(exchange)
        return reply({"secrets": [_summary(each) for each in await self._vault.list()]})

    async def _set(self, exchange: Exchange, name: str) -> Wire:
        """`PUT /api/secrets/{name}`."""
        user = _user(exchange)
        checked_name(name)
        said = body_as(
            await body_of(exchange, self._shield), Value, f'{{"value": "..."}} of {SHORTEST} or more letters'
        )
        value = Secret(said.value)

        async def apply() -> SecretInfo:
            await self._vault.set(name, value, user, exchange.caller.id)
            return next(each for each in await self._vault.list() if (each.name, each.user) == (name, user))

        return reply(_summary(await self._change(exchange, f"set secret {_named(name, user)}", apply)))

    async def _remove(self, exchange: Exchange, name: str) -> Wire:
        """`DELETE /api/secrets/{name}`."""
        user = _user(exchange)
        read_body(await body_of(exchange, self._shield), Nothing)

        async def apply() -> None:
            if not await self._vault.remove(name, user):
                raise NotFound("there is no such secret; 'toolhall secret list' shows what there is")

        await self._change(exchange, f"remove secret {_named(name, user)}", apply)
        return reply({"removed": name})

    async def _shred(self, exchange: Exchange) -> Wire:
        """Everything of one user who goes; never of the hall, whose secrets many need."""
        user = _user(exchange)
        read_body(await body_of(exchange, self._shield), Nothing)
        if user is None:
            raise Malformed("name the user whose secrets go: /api/secrets?user=USER")

        async def apply() -> None:
            if not await self._vault.shred(tenant_of(user)):
                raise NotFound("nothing is sealed for this user; 'toolhall secret list' shows what there is")

        await self._change(exchange, f"remove all secrets of {user}", apply)
        return reply({"removed": user})

    async def _rotate(self, exchange: Exchange, _: str) -> Wire:
        """`POST /api/secrets/rotate`."""
        parameters_of(exchange)
        read_body(await body_of(exchange, self._shield), Nothing)
        return reply({"rotated": await self._change(exchange, "rotate secrets", self._vault.rotate)})

    async def _change(self, exchange: Exchange, what: str, apply: Callable[[], Awaitable[T]]) -> T:
        """Recorded by its name alone: from the digest of a value, somebody could guess the value."""

        async def kept() -> T:
            if self._managed.access.turns.frozen is not None:
                raise Denied(self._managed.access.turns.frozen)
            try:
                return await apply()
            except (StoreFailed, Stale) as failed:
                raise Unavailable(f"nothing was changed: {failed}", detail=str(failed)) from None

        return await self._managed.change(what, {}, exchange.caller, kept)


def _user(exchange: Exchange) -> str | None:
    """Whose it is; of the hall itself, if nobody is named."""
    return checked_user(parameters_of(exchange, ("user",)).get("user"))


def _named(name: str, user: str | None) -> str:
    return name if user is None else f"{name} of {user}"


def _summary(secret: SecretInfo) -> JsonObject:
    return {
        "name": secret.name,
        "user": secret.user,
        "hint": secret.hint,
        "by": secret.by,
        "createdAt": moment(secret.created_at),
        "changedAt": moment(secret.changed_at),
        "usable": secret.usable,
    }
