"""A hall that does not run: its data folder is opened here, and its own application asked in memory."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from toolhall.app import Toolhall
from toolhall.cli.failure import CommandFailed
from toolhall.cli.settings import data_folder, read_settings
from toolhall.cli.waiting import waiting
from toolhall.config import BadConfig, Config
from toolhall.model.json import Json, JsonObject
from toolhall.registrar.terms import Terms
from toolhall.stores.base import FILE_NAME, StoreFailed
from toolhall.stores.seal import KEY_NAME
from toolhall.transports.asgi import AsgiMessage
from toolhall.transports.identity.building import BadIdentity


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


class LocalDesk:
    """Whoever changes something holds the folder's lock; a running hall has it, and is to be asked by --url."""

    sends_key = False

    def __init__(self, config: Config, *, changing: bool) -> None:
        self._runner = asyncio.Runner()
        # Whoever may write to the folder may manage what is in it, also that of a hall that serves others.
        try:
            self._hall = Toolhall(config=msgspec.structs.replace(config, profile="local"))
        except (BadConfig, BadIdentity) as bad:
            raise CommandFailed(str(bad)) from None
        self._hall.api.managed.origin = "cli"
        try:
            with waiting(f"Opening {config.data}"):
                self._runner.run(self._hall.open(Terms(share=not changing, hold=False)))
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

    def close(self) -> None:
        """Let the folder go."""
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
