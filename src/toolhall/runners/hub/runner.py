"""Runs a tool in a tool server; a call that was lost there is never run twice unless that can do no harm."""

import itertools
import logging
import secrets
import time
from collections.abc import Callable
from typing import TypeAlias

from toolhall.authoring.context import Patience
from toolhall.dialects.hub.endings import NotStarted, outcome
from toolhall.dialects.hub.remote import CallContext, LentToken, SeenCaller, remote_call, write_call
from toolhall.model.call import Call
from toolhall.model.caller import NOBODY, Caller
from toolhall.model.errors import BadOutput, Unavailable
from toolhall.model.exchange import SILENT, Link
from toolhall.model.globs import means
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.runners.deadline import Deadline
from toolhall.runners.hub.budget import Budget
from toolhall.runners.hub.hearing import Hearing
from toolhall.runners.hub.line import Lost, TooMuch
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.replica import Replica
from toolhall.runners.supply import supply_of
from toolhall.runners.telling import Telling

_FEATURES = ("elicitation", "elicitation.url", "sampling", "roots")
_LOST = "the tool server was lost while it ran this call; whether it had an effect is not known"
_NOT_REACHED = "the tool server cannot be reached now; the call did not run"
_TOO_MUCH = "the tool returned more than is passed on"
_log = logging.getLogger("toolhall.toolservers")

_Failed: TypeAlias = tuple[Replica, Lost | NotStarted]


class HubRunner:
    """For every tool of every tool server; `idempotent`: globs of tools that the operator lets run twice."""

    __slots__ = ("_budget", "_idempotent", "_ids", "_pools", "_prefix", "_seen")

    tells = True

    def __init__(
        self, pools: Pools, idempotent: tuple[str, ...] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pools = pools
        self._idempotent = idempotent
        self._budget = Budget(clock)
        self._prefix = secrets.token_hex(4)  # a tool server may still run calls of a hall that was here before
        self._ids = itertools.count(1)
        self._seen = NOBODY, _seen(NOBODY)  # who called last: mostly who calls next

    async def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> object:
        """What the tool returned, there."""
        self._budget.called()
        hearing = Hearing(call.link, patience)
        failed: list[_Failed] = []
        replica = self._first(tool)
        while True:
            try:
                return await self._try(replica, tool, call, arguments, hearing)
            except (Lost, NotStarted) as failure:
                failed.append((replica, failure))
            replica = self._next(tool, call, failed, hearing)

    async def _try(self, replica: Replica, tool: Tool, call: Call, arguments: JsonObject, hearing: Hearing) -> object:
        call_id = f"{self._prefix}-{next(self._ids)}"
        names = tool.id.toolkit, tool.id.tool, tool.id.version
        request = write_call(remote_call(call_id, names, arguments, self._context(tool, call, hearing.patience)))
        turn = replica.begin()
        try:
            end = await turn.line.call(request, call_id, hearing.hear)
            turn.came_back()
            hearing.close()
            return outcome(end)
        except TooMuch as much:  # it ran to its end, and is well
            turn.came_back()
            hearing.close()
            raise BadOutput(_TOO_MUCH, detail=much.why) from None
        except Lost as lost:
            turn.was_lost()
            self._pools.lost += lost.delivered
            hearing.close()
            raise
        except NotStarted:
            turn.was_refused()
            raise
        finally:
            turn.end()

    def _first(self, tool: Tool) -> Replica:
        try:
            return self._pools.pick(tool.id.toolkit, tool.id.version)
        except Unavailable:
            if self._pools.knows(tool.id.toolkit, tool.id.version):
                raise
            raise Unavailable(f"{tool.id} is defined, but nothing runs it") from None

    def _next(self, tool: Tool, call: Call, failed: list[_Failed], hearing: Hearing) -> Replica:
        """Who may try it again; raises what the caller is told where nobody may."""
        other = self._other(tool, failed) if self._may_go_on(tool, failed, hearing) else None
        if other is None or not self._budget.spend():
            raise _unavailable(failed)
        self._pools.tried_again += 1
        if _delivered(failed[-1]):
            _log.warning("call %s of %s was lost, and is run again: it is marked idempotent", call.id, tool.id)
        return other

    def _may_go_on(self, tool: Tool, failed: list[_Failed], hearing: Hearing) -> bool:
        """Not once the caller has heard something of a try, or was asked; nor after two that may have run."""
        if hearing.heard or _left(hearing.patience) == 0:
            return False
        ran = sum(map(_delivered, failed))
        return ran == 0 or (ran == 1 and means(self._idempotent, str(tool.id)))

    def _other(self, tool: Tool, failed: list[_Failed]) -> Replica | None:
        try:
            return self._pools.pick(tool.id.toolkit, tool.id.version, [replica for replica, _ in failed])
        except Unavailable:
            return None

    def _context(self, tool: Tool, call: Call, patience: Patience) -> CallContext:
        """What the tool declared, and who calls: nothing of what that was proven by."""
        caller, seen = self._seen
        if caller is not call.caller:
            seen = _seen(call.caller)
            self._seen = call.caller, seen
        can, supply = _can(call.link), supply_of(call.equipment)
        if supply is None:
            return CallContext(call.id, _left(patience), seen, can)
        return CallContext(
            call.id,
            _left(patience),
            seen,
            can,
            supply.user_id if (tool.requirements or {}).get("user_id") is True else None,
            supply.secrets,
            {name: LentToken(lent.token, lent.scopes, lent.expires_at) for name, lent in supply.accounts.items()},
        )


def _seen(caller: Caller) -> SeenCaller:
    return SeenCaller(caller.id, caller.person, caller.proof, tuple(sorted(caller.scopes)), caller.acting_for)


def _can(link: Link) -> tuple[str, ...]:
    """What the caller's program can do, as the innermost link knows it."""
    if isinstance(link, Telling):
        link = link.link
    return () if link is SILENT else tuple(filter(link.can, _FEATURES))


def _left(patience: Patience) -> float | None:
    """Seconds; None where nobody counts them."""
    return patience.left if isinstance(patience, Deadline) else None


def _delivered(failed: _Failed) -> bool:
    """Whether the tool may have run."""
    failure = failed[1]
    return isinstance(failure, Lost) and failure.delivered


def _unavailable(failed: list[_Failed]) -> Unavailable:
    """The last failure is told, unless one before it leaves in doubt whether the call had an effect."""
    replica, failure = next(filter(_delivered, failed), failed[-1])
    if isinstance(failure, NotStarted):
        return failure
    detail = f"a replica of the tool server {replica.server!r} was lost: {failure.why}"
    return Unavailable(_LOST if failure.delivered else _NOT_REACHED, detail=detail)
