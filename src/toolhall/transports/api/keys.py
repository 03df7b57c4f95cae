"""`/api/keys`: who has a key; its secret is in the reply that makes it, and nowhere else."""

from toolhall.model.errors import NotFound
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject
from toolhall.registrar.keys import NewKey
from toolhall.stores.keys.base import ApiKey
from toolhall.transports.api.answering import answer
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import refusal, reply
from toolhall.transports.api.requests import Nothing, body_of, parameters_of, read_body
from toolhall.transports.api.summaries import moment
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield

PREFIX = "/api/keys/"


class KeysApi:
    """For callers who may manage the hall."""

    def __init__(self, managed: Managed, shield: Shield) -> None:
        self._managed = managed
        self._keys = managed.access.keys
        self._shield = shield

    def endpoints(self) -> dict[str, Methods]:
        """The paths of keys."""
        return {"/api/keys": {"GET": self.list, "POST": self.create}, PREFIX: {"DELETE": self.revoke}}

    async def list(self, exchange: Exchange) -> None:
        """`GET /api/keys`."""
        await answer(exchange, self._list(exchange))

    async def create(self, exchange: Exchange) -> None:
        """`POST /api/keys`."""
        await answer(exchange, self._create(exchange))

    async def revoke(self, exchange: Exchange) -> None:
        """`DELETE /api/keys/{id}`."""
        match exchange.below(PREFIX):
            case [str(key_id)] if key_id:
                await answer(exchange, self._revoke(exchange, key_id))
            case _:
                await exchange.reply(refusal(NotFound("there is nothing here; /api/keys/ID is a key")))

    async def _list(self, exchange: Exchange) -> Wire:
        self._managed.refuse_strangers(exchange.caller)
        parameters_of(exchange)
        return reply({"keys": [_summary(key) for key in self._keys.all]})

    async def _create(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        wanted = read_body(given, NewKey)

        async def apply() -> tuple[ApiKey, str]:
            return await self._keys.create(wanted, exchange.caller.id)

        key, secret = await self._managed.change(f"create key {wanted.name}", given, exchange.caller, apply)
        return reply({**_summary(key), "secret": secret}, 201)

    async def _revoke(self, exchange: Exchange, key_id: str) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        read_body(given, Nothing)

        async def apply() -> ApiKey:
            return await self._keys.revoke(key_id)

        return reply(_summary(await self._managed.change(f"revoke key {key_id}", given, exchange.caller, apply)))


def _summary(key: ApiKey) -> JsonObject:
    return {
        "id": key.id,
        "name": key.name,
        "owner": key.owner,
        "shared": key.shared,
        "scopes": [*key.scopes],
        "createdAt": moment(key.created_at),
        "expiresAt": _or_none(key.expires_at),
        "lastUsedAt": _or_none(key.last_used_at),
        "revokedAt": _or_none(key.revoked_at),
        "by": key.by,
    }


def _or_none(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)
