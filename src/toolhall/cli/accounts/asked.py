"""Who is asked about accounts: a hall that runs, or the folder of one that does not."""

import contextlib
import importlib
import time
from collections.abc import Generator, Sequence
from typing import Literal, Protocol, TypeAlias
from urllib.parse import quote

from toolhall.cli.failure import CommandFailed
from toolhall.cli.tools.desk import Desk, HallOptions, opened
from toolhall.cli.tools.remote import RemoteDesk
from toolhall.model.json import JsonObject

How: TypeAlias = Literal["browser", "device", "paste"]


class Accounts(Protocol):
    """The same answers, whoever gives them."""

    def providers(self) -> list[JsonObject]:
        """Where accounts can be connected."""
        ...

    def all(self, user: str | None) -> list[JsonObject]:
        """The accounts of a user, or all that the caller may see."""
        ...

    def begin(self, provider: str, scopes: Sequence[str], how: How) -> JsonObject:
        """A new link, with what the person needs for it."""
        ...

    def paste(self, link: str, url: str) -> None:
        """Finish with the address that the browser was sent to."""
        ...

    def status(self, link: str, seconds: float) -> str:
        """Pending, completed or failed, so many seconds from now."""
        ...

    def disconnect(self, account: str) -> JsonObject:
        """Revoke and forget it."""
        ...


class RemoteAccounts:
    """A hall that runs."""

    def __init__(self, desk: Desk, line: RemoteDesk) -> None:
        self._desk = desk
        self._line = line

    def providers(self) -> list[JsonObject]:
        """Where accounts can be connected."""
        found: list[JsonObject] = self._desk.manage("GET", "providers")["providers"]
        return found

    def all(self, user: str | None) -> list[JsonObject]:
        """The accounts of a user, or all that the caller may see."""
        found: list[JsonObject] = self._desk.manage("GET", "accounts", query={"user": user})["accounts"]
        return found

    def begin(self, provider: str, scopes: Sequence[str], how: How) -> JsonObject:
        """A new link, with what the person needs for it."""
        body = {"provider": provider, "scopes": [*scopes], "how": how}
        return self._desk.manage("POST", "accounts", body=body)

    def paste(self, link: str, url: str) -> None:
        """Finish with the address that the browser was sent to."""
        self._desk.manage("POST", "accounts", link, "paste", body={"url": url})

    def status(self, link: str, seconds: float) -> str:
        """Asked where the person said that the hall is: a key is not sent to wherever an answer points."""
        time.sleep(seconds)
        match self._line.send("GET", f"/connect/{quote(link, safe='')}/status", None):
            case 200 | 404, {"status": str(status)}:  # a link that is too old is not there
                return status
            case code, _:
                raise CommandFailed(f"how far it is cannot be asked: the hall answered with HTTP status {code}")

    def disconnect(self, account: str) -> JsonObject:
        """Revoke and forget it."""
        return self._desk.manage("DELETE", "accounts", account)


@contextlib.contextmanager
def opened_accounts(options: HallOptions, *, changing: bool = False) -> Generator[Accounts, None, None]:
    """Whoever was named, let go again at the end."""
    if options.url is not None or options.key is not None:
        with opened(options) as desk:
            yield RemoteAccounts(desk, RemoteDesk(options.url or "", options.key))
        return
    home = importlib.import_module("toolhall.cli.accounts.folder")
    with home.opened_folder(options.data, changing=changing) as accounts:
        yield accounts
