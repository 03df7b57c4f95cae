"""Who looks at a page: signs people in with their own key, and knows the person at this machine."""

from typing import NamedTuple

from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.transports.exchange import Exchange
from toolhall.transports.identity import Identity, Unproven, proven
from toolhall.transports.pages.sessions import Session, Sessions

WRONG_KEY = "this key is not valid here: unknown, expired or revoked"


class Visitor(NamedTuple):
    """One browser, and whoever sits before it, if that is known; `new` sets its cookie."""

    session: Session
    caller: Caller | None
    new: bool


class Visiting:
    """Nobody is signed in by a link."""

    def __init__(self, sessions: Sessions, identity: Identity) -> None:
        self.sessions = sessions
        self._identity = identity

    async def visitor(self, exchange: Exchange) -> Visitor:
        """Whoever has signed in here, or else the person at this machine where the profile says so."""
        session = self.sessions.read(exchange.headers)
        if session is None:
            return Visitor(self.sessions.new(), self._local(exchange), new=True)
        caller = session.caller
        if session.key is not None:
            try:
                caller = await self._proven(exchange, session.key)
            except Unproven:  # revoked since, or expired
                caller = None
        return Visitor(session, caller or self._local(exchange), new=False)

    async def sign_in(self, exchange: Exchange, credential: str) -> Session | str:
        """A new session, or what is wrong."""
        given = credential.strip()
        try:
            caller = await self._proven(exchange, given)
        except Unproven as refused:
            return refused.error.message if isinstance(refused.error, Limited) else WRONG_KEY
        if caller.local or caller.proof == "none":
            return WRONG_KEY
        if caller.proof in ("key", "shared"):
            return self.sessions.new(key=given)
        return self.sessions.new(caller=caller)

    async def _proven(self, exchange: Exchange, credential: str) -> Caller:
        headers = {b"authorization": b"Bearer " + credential.encode("utf-8", "replace")}
        return await proven(self._identity.caller(exchange.scope, headers))

    def _local(self, exchange: Exchange) -> Caller | None:
        return exchange.caller if exchange.caller.local else None
