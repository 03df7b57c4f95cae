"""A hall that does not run: its data folder is opened here, and its own application asked in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from toolhall.app import Toolhall
from toolhall.cli.failure import CommandFailed
from toolhall.cli.settings import data_folder, read_settings
from toolhall.cli.waiting import waiting
from toolhall.config import BadConfig, Config
from toolhall.model.caller import LOCAL
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.pipeline.manage import Change
from toolhall.registrar.terms import for_command
from toolhall.stores.base import FILE_NAME, Stale, StoreFailed
from toolhall.stores.seal import KEY_NAME
from toolhall.stores.vault.keys import NoKey, find_keks
from toolhall.transports.api.managed import DIALECT
from toolhall.transports.asgi import AsgiMessage
from toolhall.transports.identity.building import BadIdentity

T = TypeVar("T")


def hall_in(folder: Path | None, *, founding: bool) -> Config:
    """The settings of the hall in a folder; where there is none, nothing is made unless this is to found one."""
    config = read_settings(data=str(folder) if folder else None)
    home = Path(config.data or "")
    if not founding and not any((home / name).exists() for name in (FILE_NAME, KEY_NAME)):
        raise CommandFailed(
            f"there is no hall in {home}; make one with 'toolhall tool add FILE' or 'toolhall serve',"
            " name another folder with --data, or a hall that runs with --url"
        )
    data_folder(config)
    return config


def refuse_unkeyed(config: Config) -> None:
    """A server's vault key is never made unasked, and the hall that is opened here has the profile `local`."""
    try:
        found = find_keks(config.vault_key, Path(config.data or ""), profile=config.profile)
    except StoreFailed as failed:
        raise CommandFailed(str(failed)) from None
    if isinstance(found, NoKey) and config.profile != "local":
        raise CommandFailed(found.fix)


def closed_hall(config: Config) -> Toolhall:
    """The hall of a folder, not opened yet; whoever may write to the folder may manage what is in it.

    That is so for a hall that serves others, too.
    """
    try:
        return Toolhall(config=msgspec.structs.replace(config, profile="local"))
    except (BadConfig, BadIdentity) as bad:
        raise CommandFailed(str(bad)) from None


async def recorded(hall: Toolhall, what: str, apply: Callable[[], Awaitable[T]]) -> T:
    """A change that has no path, since it is for whoever has the folder; recorded like every other one."""
    try:
        return await hall.hall.manage(Change(what, DIALECT, {}), LOCAL, apply)
    except ToolhallError as refused:
        raise CommandFailed(refused.message) from None
    except (StoreFailed, Stale) as failed:
        raise CommandFailed(f"nothing was changed: {failed}") from None


class LocalDesk:
    """Whoever changes something needs the right to change tools; a running server has it, and is to be asked by --url.

    `alone` also keeps out processes over stdio.
    """

    sends_key = False

    def __init__(self, config: Config, *, changing: bool, alone: bool = False) -> None:
        self._runner = asyncio.Runner()
        self._hall = closed_hall(config)
        self._hall.api.managed.origin = "cli"
        try:
            with waiting(f"Opening {config.data}"):
                self._runner.run(self._hall.open(for_command(changing=changing, alone=alone)))
        except StoreFailed as failed:
            self.close()
            raise CommandFailed(str(failed)) from None
        except BaseException:
            self.close()
            raise

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """The status and the value of the reply."""
        return self._runner.run(self._send(method, target, body))

    def bringing(self, detail: str) -> None:
        """What is registered from now on comes from there."""
        self._hall.api.managed.detail = detail

    def wait(self, seconds: float) -> None:
        """Meanwhile the hall goes on with what it does by itself, such as asking a provider."""
        self._runner.run(asyncio.sleep(seconds))

    def rotate(self, new: str) -> int:
        """Seal everything with a new key, which is for whoever has the folder; how many secrets there are."""
        return self._runner.run(recorded(self._hall, "rotate secrets", lambda: self._hall.supplies.vault.rotate(new)))

    def close(self) -> None:
        """Let the folder go."""
        try:
            self._runner.run(self._hall.settle())
        finally:
            self._hall.close()
            self._runner.close()

    async def _send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        sent: list[AsgiMessage] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"" if body is None else msgspec.json.encode(body)}

        async def send(message: AsgiMessage) -> None:
            sent.append(message)

        await self._hall(_scope(method, target, typed=body is not None), receive, send)
        return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


def _scope(method: str, target: str, *, typed: bool) -> dict[str, Any]:
    """As a server would say it; without an address the caller is whoever owns this process."""
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), *([(b"content-type", b"application/json")] if typed else [])],
        "client": None,
    }
