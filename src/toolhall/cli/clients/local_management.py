"""LocalManagementTransport: opens the data folder of a stopped hall and calls its application in memory.

Import it lazily: a whole hall takes longer to import than a running one takes to answer.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from toolhall.app import Toolhall
from toolhall.app.data_dir import command_open_options
from toolhall.auth.authenticator import AsgiMessage
from toolhall.auth.profiles import BadAuthSettings
from toolhall.cli.errors import CommandError
from toolhall.cli.output import pluralize
from toolhall.cli.progress import show_spinner
from toolhall.cli.settings import ensure_data_folder, read_config_with_data
from toolhall.config import BadConfig, Config
from toolhall.http.api.base import MANAGEMENT_DIALECT
from toolhall.model.caller import LOCAL
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.upstream import UpstreamSettings
from toolhall.pipeline.admin import AdminOperation
from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE, Stale, StoreFailed
from toolhall.stores.crypto import ROOT_KEY_FILE
from toolhall.stores.open import open_stores
from toolhall.stores.vault.key_sources import NoKey, find_key_encryption_keys
from toolhall.stores.vault.vault import has_orphans, without_orphans

T = TypeVar("T")


def config_of_folder(folder: Path | None, *, create: bool) -> Config:
    """The settings of the hall in a data folder; raises CommandError if there is none, unless `create`."""
    config = read_config_with_data(data=str(folder) if folder else None)
    data = Path(config.data or "")
    if not create and not any((data / name).exists() for name in (DATABASE_FILE, ROOT_KEY_FILE)):
        raise CommandError(
            f"there is no hall in {data}; make one with 'toolhall tool add FILE' or 'toolhall serve',"
            " name another folder with --data, or a hall that runs with --url"
        )
    ensure_data_folder(config)
    return config


def check_vault_key(config: Config) -> None:
    """Raise CommandError if the profile `server` has no vault key: only the profile `local` generates one."""
    try:
        keys = find_key_encryption_keys(config.vault_key, Path(config.data or ""), profile=config.profile)
    except StoreFailed as failed:
        raise CommandError(str(failed)) from None
    if isinstance(keys, NoKey) and config.profile != "local":
        raise CommandError(keys.fix)


def unopened_app(config: Config) -> Toolhall:
    """The hall of a data folder, not opened yet, with the profile `local`.

    Whoever can write to the folder may manage it, also if its hall serves others with the profile `server`.
    """
    try:
        return Toolhall(config=msgspec.structs.replace(config, profile="local"))
    except (BadConfig, BadAuthSettings) as bad:
        raise CommandError(str(bad)) from None


async def apply_recorded(app: Toolhall, what: str, apply: Callable[[], Awaitable[T]]) -> T:
    """Apply a change that has no HTTP path, because only the owner of the folder may make it; it is audited."""
    try:
        return await app.dispatcher.admin(AdminOperation(what, MANAGEMENT_DIALECT, {}), LOCAL, apply)
    except ToolhallError as refused:
        raise CommandError(refused.message) from None
    except (StoreFailed, Stale) as failed:
        raise CommandError(f"nothing was changed: {failed}") from None


class LocalManagementTransport:
    """Calls the ASGI application of a hall that is opened from its data folder.

    `write` needs the lock for changes, which a running server holds: then use --url. `exclusive` also keeps out
    processes over stdio.
    """

    sends_key = False

    def __init__(self, config: Config, *, write: bool, exclusive: bool = False) -> None:
        self._runner = asyncio.Runner()
        self._app = unopened_app(config)
        self._app.api.context.origin = "cli"
        try:
            with show_spinner(f"Opening {config.data}"):
                self._runner.run(self._app.open(command_open_options(writes=write, exclusive=exclusive)))
        except StoreFailed as failed:
            self.close()
            raise CommandError(str(failed)) from None
        except BaseException:
            self.close()
            raise

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """Send a request and return status and JSON body of the response."""
        return self._runner.run(self._send(method, target, body))

    def set_origin_detail(self, detail: str) -> None:
        """Set the origin that is recorded with tools that are registered from now on."""
        self._app.api.context.detail = detail

    def run_for(self, seconds: float) -> None:
        """Run the hall's background tasks for so many seconds, such as polling a provider."""
        self._runner.run(asyncio.sleep(seconds))

    def rotate_keys(self, new: str) -> int:
        """Encrypt all secrets with a new key; return how many there are."""
        return self._runner.run(
            apply_recorded(self._app, "rotate secrets", lambda: self._app.credentials.vault.rotate(new))
        )

    def add_upstream(self, name: str, settings: UpstreamSettings) -> None:
        """Store an upstream; whoever can write to the folder may name a command."""
        self._runner.run(
            apply_recorded(self._app, f"add upstream {name}", lambda: self._app.upstreams.add(name, settings, LOCAL))
        )

    def close(self) -> None:
        """Finish pending work and close the data folder."""
        try:
            self._runner.run(self._app.settle())
        finally:
            self._app.close()
            self._runner.close()

    async def _send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        sent: list[AsgiMessage] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"" if body is None else msgspec.json.encode(body)}

        async def send(message: AsgiMessage) -> None:
            sent.append(message)

        await self._app(_scope(method, target, typed=body is not None), receive, send)
        return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


def _scope(method: str, target: str, *, typed: bool) -> dict[str, Any]:
    """An ASGI scope without a client address: the caller is the owner of this process."""
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


def forget_lost_secrets(folder: Path | None, confirm: Callable[[str], None]) -> list[tuple[str, str | None]]:
    """Delete secrets and accounts that no key decrypts, if `confirm` does not raise; return ids and owners."""
    config = config_of_folder(folder, create=False)
    with unopened_app(config) as hall, asyncio.Runner() as runner:
        try:
            # The stores are locked while the person decides.
            with contextlib.closing(open_stores(Path(config.data or ""), allow_readonly=False)) as stores:
                lost = runner.run(_find_lost(config, stores))
                confirm(f"Forget {pluralize(len(lost), 'secret')} and every account that the lost key sealed?")
                runner.run(_forget_lost(hall, stores))
        except StoreFailed as failed:
            raise CommandError(f"nothing was changed: {failed}") from None
    return lost


async def _find_lost(config: Config, stores: Stores) -> list[tuple[str, str | None]]:
    keys = find_key_encryption_keys(config.vault_key, Path(config.data or ""), profile=config.profile)
    stored = await stores.vault.all()
    if not has_orphans(stored, keys):
        raise CommandError("nothing is lost: whatever is sealed here opens with the key that is here")
    usable = without_orphans(stored, keys).rows
    return [(row.name, row.user) for row in stored.rows if row not in usable]


async def _forget_lost(hall: Toolhall, stores: Stores) -> None:
    await apply_recorded(hall, "remove lost secrets", lambda: hall.credentials.vault.remove_orphans(stores.vault))
