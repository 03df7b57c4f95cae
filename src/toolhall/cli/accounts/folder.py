"""The accounts of a hall that does not run: opened in its data folder, with the settings and the key of that hall."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolhall.accounts.broker import Broker, status_of
from toolhall.accounts.providers import Provider
from toolhall.app import Toolhall
from toolhall.cli.accounts.asked import How
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.tools.local import hall_in
from toolhall.cli.waiting import waiting
from toolhall.config import BadConfig, Config
from toolhall.model.caller import LOCAL
from toolhall.model.errors import ToolhallError
from toolhall.model.json import JsonObject
from toolhall.pipeline.manage import Change
from toolhall.registrar.terms import Terms
from toolhall.stores.accounts.base import Account, Link
from toolhall.stores.base import StoreFailed
from toolhall.stores.vault.keys import NoKey, find_keks
from toolhall.transports.api.managed import DIALECT
from toolhall.transports.api.summaries import moment
from toolhall.transports.identity.building import BadIdentity

T = TypeVar("T")


class FolderAccounts:
    """The broker of a hall that is open, but not served; whoever may write to its folder is the person `local`."""

    def __init__(self, runner: asyncio.Runner, hall: Toolhall) -> None:
        self._runner = runner
        self._hall = hall

    @property
    def _broker(self) -> Broker:
        return self._hall.supplies.broker

    def providers(self) -> list[JsonObject]:
        """Where accounts can be connected."""
        return [_provider(each) for each in self._broker.providers()]

    def all(self, user: str | None) -> list[JsonObject]:
        """The accounts of a user, or of everybody."""
        return [_account(each) for each in self._asked(self._broker.accounts(user))]

    def begin(self, provider: str, scopes: Sequence[str], how: How) -> JsonObject:
        """A new link, with what the person needs for it."""
        if how == "browser":
            raise WrongUsage(
                "a browser comes back to a hall that runs: start 'toolhall serve' and give --url;"
                " without one, use --device or --paste"
            )
        return self._changed(f"connect {provider}", lambda: self._begin(provider, tuple(scopes), how))

    def paste(self, link: str, url: str) -> None:
        """Finish with the address that the browser was sent to."""
        self._asked(self._broker.paste(link, LOCAL, url))

    def status(self, link: str, seconds: float) -> str:
        """How far it is; meanwhile the broker asks the provider."""

        async def look() -> str:
            await asyncio.sleep(seconds)
            return status_of(await self._broker.find(link))

        return self._asked(look())

    def disconnect(self, account: str) -> JsonObject:
        """Revoke and forget it."""
        done = self._changed(f"disconnect account {account}", lambda: self._broker.disconnect(account, LOCAL))
        return {"removed": done.account.id, "unrevoked": done.unrevoked}

    async def _begin(self, provider: str, scopes: tuple[str, ...], how: How) -> JsonObject:
        link = await self._broker.begin(LOCAL, provider, scopes, how=how)
        told: JsonObject = {"id": link.id, "device": None, "authorize_url": None}
        return told | await (self._device(link) if how == "device" else self._authorize(link))

    async def _device(self, link: Link) -> JsonObject:
        code = await self._broker.device(link)
        return {"device": {"user_code": code.user_code, "verification_uri": code.verification_uri}}

    async def _authorize(self, link: Link) -> JsonObject:
        url, _ = await self._broker.consent(link.id, LOCAL)
        return {"authorize_url": url}

    def _changed(self, what: str, apply: Callable[[], Awaitable[T]]) -> T:
        """Recorded like every change."""
        return self._asked(self._hall.hall.manage(Change(what, DIALECT, {}), LOCAL, apply))

    def _asked(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(work)
        except ToolhallError as refused:
            raise CommandFailed(refused.message) from None


@contextlib.contextmanager
def opened_folder(folder: Path | None, *, changing: bool) -> Generator[FolderAccounts, None, None]:
    """The accounts in a folder; whoever changes something holds its lock."""
    config = hall_in(folder, founding=changing)
    if changing:
        _refuse_without_key(config)
    with asyncio.Runner() as runner:
        try:
            # Whoever may write to the folder may manage what is in it, also that of a hall that serves others.
            hall = Toolhall(config=msgspec.structs.replace(config, profile="local"))
        except (BadConfig, BadIdentity) as bad:
            raise CommandFailed(str(bad)) from None
        with hall:
            try:
                with waiting(f"Opening {config.data}"):
                    runner.run(hall.open(Terms(share=not changing, hold=False)))
            except StoreFailed as failed:
                raise CommandFailed(str(failed)) from None
            try:
                yield FolderAccounts(runner, hall)
            finally:
                runner.run(hall.settle())


def _refuse_without_key(config: Config) -> None:
    """A server's key is never made unasked."""
    try:
        found = find_keks(config.vault_key, Path(config.data or ""), profile=config.profile)
    except StoreFailed as failed:
        raise CommandFailed(str(failed)) from None
    if isinstance(found, NoKey) and config.profile != "local":
        raise CommandFailed(found.fix)


def _provider(provider: Provider) -> JsonObject:
    return {"name": provider.name, "issuer": provider.identity, "scopes": [*provider.scopes]}


def _account(account: Account) -> JsonObject:
    return {
        "id": account.id,
        "user": account.user,
        "provider": account.provider,
        "issuer": account.issuer,
        "scopes": [*account.scopes],
        "state": account.state,
        "createdAt": moment(account.created_at),
        "refreshedAt": _or_none(account.refreshed_at),
        "usedAt": _or_none(account.used_at),
        "expiresAt": _or_none(account.expires_at),
    }


def _or_none(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)
