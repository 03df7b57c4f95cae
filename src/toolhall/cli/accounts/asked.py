"""Who is asked about accounts: a hall that runs, or the folder of one that does not; both by the same requests."""

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from typing import Literal, TypeAlias
from urllib.parse import quote

from toolhall.cli.failure import CommandFailed
from toolhall.cli.secrets.options import opened_folder
from toolhall.cli.tools.desk import Desk, HallOptions, Line, opened
from toolhall.cli.tools.remote import RemoteDesk
from toolhall.model.json import JsonObject

How: TypeAlias = Literal["browser", "device", "paste"]


class Accounts:
    """What can be asked; `pause` lets some seconds pass."""

    def __init__(self, desk: Desk, line: Line, pause: Callable[[float], None]) -> None:
        self._desk = desk
        self._line = line
        self._pause = pause

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
        """Pending, completed or failed, so many seconds from now.

        It is asked where the person said that the hall is: a key is not sent to wherever an answer points.
        """
        self._pause(seconds)
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
    if options.running or options.key is not None:
        with opened(options) as desk:
            yield Accounts(desk, RemoteDesk(options.url or "", options.key), time.sleep)
    else:
        with opened_folder(options, changing=changing, founding=changing) as line:
            yield Accounts(Desk(line), line, line.wait)
