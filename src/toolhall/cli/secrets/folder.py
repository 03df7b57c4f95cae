"""The vault of a hall that does not run: opened in its data folder, with the settings and the key of that hall."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from toolhall.app import Toolhall
from toolhall.cli.failure import CommandFailed
from toolhall.cli.tools.local import hall_in
from toolhall.cli.waiting import waiting
from toolhall.config import BadConfig, Config
from toolhall.model.caller import LOCAL
from toolhall.model.errors import NotFound, ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import Secret
from toolhall.pipeline.manage import Change
from toolhall.stores.base import Stale, StoreFailed
from toolhall.stores.choosing import choose_stores
from toolhall.stores.vault.keys import find_keks, new_key
from toolhall.stores.vault.vault import SecretInfo, Vault
from toolhall.transports.api.managed import DIALECT
from toolhall.transports.api.summaries import moment
from toolhall.transports.identity.building import BadIdentity

__all__ = ["VaultLine", "hall_in"]

T = TypeVar("T")


class VaultLine:
    """Answers what `/api/secrets` answers; whoever changes something holds the folder's lock, and it is recorded."""

    sends_key = False

    def __init__(self, config: Config, *, changing: bool) -> None:
        self._config = config
        self._open = contextlib.ExitStack()
        self._runner = self._open.enter_context(asyncio.Runner())
        folder = Path(config.data or "")
        try:
            with waiting(f"Opening {folder}"):
                stores = choose_stores(folder, share=not changing)
                self._open.callback(stores.close)
                # The profile is the hall's own: a server's key is never made here unasked.
                self._vault = Vault(find_keks(config.vault_key, folder, profile=config.profile))
                self._open.callback(self._vault.close)
                self._runner.run(self._vault.open(stores.vault))
        except BaseException as error:
            self.close()
            if isinstance(error, StoreFailed):
                raise CommandFailed(str(error)) from None
            raise

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """The status and the value of the reply."""
        parts = urlsplit(target)
        name = unquote(parts.path.removeprefix("/api/secrets").removeprefix("/"))
        user = parse_qs(parts.query, keep_blank_values=True).get("user", [None])[0]
        try:
            with waiting("Sealing"):
                return 200, self._runner.run(self._answer(method, name, user, body or {}))
        except NotFound as missing:
            return 404, {"error": {"message": missing.message}}
        except ToolhallError as wrong:
            raise CommandFailed(wrong.message) from None
        except (StoreFailed, Stale) as failed:
            raise CommandFailed(f"nothing was changed: {failed}") from None

    def bringing(self, detail: str) -> None:
        """Nothing is registered here."""

    def close(self) -> None:
        """Let the folder go."""
        self._open.close()

    async def _answer(self, method: str, name: str, user: str | None, body: JsonObject) -> Json:
        match method, name:
            case "GET", "":
                return {"secrets": [_told(each) for each in await self._vault.list()]}
            case "POST", "rotate":
                key = new_key() if body.get("new") else None
                return {"rotated": await self._changed("rotate secrets", lambda: self._vault.rotate(key))}
            case "PUT", _:
                value = Secret(body["value"])
                return _told(await self._changed(_said("set", name, user), lambda: self._set(name, value, user)))
            case _:
                await self._changed(_said("remove", name, user), lambda: self._remove(name, user))
                return {"removed": name}

    async def _set(self, name: str, value: Secret, user: str | None) -> SecretInfo:
        await self._vault.set(name, value, user, LOCAL.id)
        return next(each for each in await self._vault.list() if (each.name, each.user) == (name, user))

    async def _remove(self, name: str, user: str | None) -> None:
        if not await self._vault.remove(name, user):
            raise NotFound("there is no such secret; 'toolhall secret list' shows what there is")

    async def _changed(self, what: str, apply: Callable[[], Awaitable[T]]) -> T:
        """Recorded like every change, by its name alone; whoever may write to the folder may manage what is in it."""
        try:
            hall = Toolhall(config=msgspec.structs.replace(self._config, profile="local"))
        except (BadConfig, BadIdentity) as bad:
            raise CommandFailed(str(bad)) from None
        with hall:
            return await hall.hall.manage(Change(what, DIALECT, {}), LOCAL, apply)


def _said(verb: str, name: str, user: str | None) -> str:
    return f"{verb} secret {name}" if user is None else f"{verb} secret {name} of {user}"


def _told(secret: SecretInfo) -> JsonObject:
    return {
        "name": secret.name,
        "user": secret.user,
        "hint": secret.hint,
        "by": secret.by,
        "createdAt": moment(secret.created_at),
        "changedAt": moment(secret.changed_at),
        "usable": secret.usable,
    }
