"""The steps by which a person links an account; each is recorded like any change."""

import logging
import re

from toolhall.accounts.broker import Broker, Consent
from toolhall.accounts.failures import LinkFailed
from toolhall.accounts.links import may_connect
from toolhall.accounts.providers import is_safe
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Limited, ToolhallError, Unavailable
from toolhall.pipeline.manage import Change, Manage
from toolhall.stores.accounts.base import Link

_log = logging.getLogger("toolhall.pages")
_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_DIALECT = "page"
_UNSAFE = "the provider's address is none that a browser may be sent to; the operator checks the provider's settings"
_STATUSES: dict[type[ToolhallError], int] = {Unavailable: 503, Limited: 429, Denied: 403}


class Linking:
    """Whoever is not the person of a link gets no further than to see that there is one."""

    def __init__(self, broker: Broker, manage: Manage) -> None:
        self._broker = broker
        self._manage = manage

    async def find(self, link_id: str) -> Link | None:
        """The link as it stands now; raises Unavailable."""
        return await self._broker.find(link_id) if _ID.fullmatch(link_id) else None

    async def offered(self, link: Link, caller: Caller) -> Consent:
        """What the person is asked to agree to."""
        return await self._broker.describe(link.id, caller)

    async def agree(self, link: Link, caller: Caller) -> tuple[str, str]:
        """Where the browser goes now, and what it must bring back; before this, no answer could belong to the link."""

        async def apply() -> tuple[str, str]:
            if not is_open(link, caller):
                raise LinkFailed
            url, nonce = await self._broker.consent(link.id, caller)
            if not is_safe(url):
                _log.warning("nobody is sent to %s: its address is neither https nor on this machine", link.provider)
                raise LinkFailed(_UNSAFE)
            return url, nonce

        return await self._manage(_change("agree to link", link), caller, apply)

    async def finish(self, link: Link, path: str, answer: dict[str, str], nonce: str) -> Link:
        """The account is linked, or LinkFailed says why not; who agreed is known, so nobody signs in again."""

        async def apply() -> Link:
            return await self._broker.finish(path, answer, nonce)

        return await self._manage(_change("link", link), Caller(link.caller, person=link.user), apply)

    async def is_over(self, link: Link) -> bool:
        """Whether it was used up; what cannot be found out is not."""
        try:
            now = await self._broker.find(link.id)
        except Unavailable:
            return False
        return now is None or now.state != "pending"


def is_open(link: Link, caller: Caller) -> bool:
    """Whether this person may go on with it in a browser."""
    return link.state == "pending" and link.how == "browser" and may_connect(link, caller)


def status_of(error: ToolhallError) -> int:
    """The status of a page that says what went wrong; what it does not say is for the log."""
    if error.detail:
        _log.warning("%s: %s", type(error).__name__, error.detail)
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 400)


def _change(verb: str, link: Link) -> Change:
    facts = {"link": link.id, "user": link.user, "issuer": link.issuer, "scopes": [*link.scopes], "tool": link.tool}
    return Change(f"{verb} {link.provider} {link.id}", _DIALECT, facts, personal=True)
