"""Runs a tool in a tool server; a call that was lost there is never run twice unless that can do no harm."""

import itertools
import secrets
import time
from collections.abc import Callable

from toolhall.authoring.context import Patience
from toolhall.dialects.hub.endings import NotStarted, outcome
from toolhall.dialects.hub.remote import CallContext, LentToken, SeenCaller, remote_call, write_call
from toolhall.model.call import Call
from toolhall.model.errors import Unavailable
from toolhall.model.globs import means
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.runners.deadline import Deadline
from toolhall.runners.hub.budget import Budget
from toolhall.runners.hub.hearing import Hearing
from toolhall.runners.hub.line import Lost
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.replica import Replica
from toolhall.runners.supply import supply_of

_FEATURES = ("elicitation", "elicitation.url", "sampling", "roots")
_LOST = "the tool server was lost while it ran this call; whether it had an effect is not known"
_NOT_REACHED = "the tool server cannot be reached now; the call did not run"


class HubRunner:
    """For every tool of every tool server; `idempotent`: globs of tools that the operator lets run twice."""

    __slots__ = ("_budget", "_idempotent", "_ids", "_pools", "_prefix")

    tells = True

    def __init__(
        self, pools: Pools, idempotent: tuple[str, ...] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pools = pools
        self._idempotent = idempotent
        self._budget = Budget(clock)
        self._prefix = secrets.token_hex(4)  # a tool server may still run calls of a hall that was here before
        self._ids = itertools.count(1)

    async def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> object:
        """What the tool returned, there."""
        self._budget.called()
        hearing = Hearing(call.link, patience)
        replica = self._first(tool)
        try:
            return await self._try(replica, tool, call, arguments, hearing)
        except (Lost, NotStarted) as failure:
            second = self._second(tool, replica, failure, hearing)
            if second is None:
                raise _unavailable(replica, failure) from None
        self._pools.tried_again += 1
        try:
            return await self._try(second, tool, call, arguments, hearing)
        except (Lost, NotStarted) as failure:
            raise _unavailable(second, failure) from None

    async def _try(self, replica: Replica, tool: Tool, call: Call, arguments: JsonObject, hearing: Hearing) -> object:
        call_id = f"{self._prefix}-{next(self._ids)}"
        names = tool.id.toolkit, tool.id.tool, tool.id.version
        request = write_call(remote_call(call_id, names, arguments, _context(tool, call, hearing.patience)))
        turn = replica.begin()
        try:
            end = await turn.line.call(request, call_id, hearing.hear)
            turn.came_back()
            hearing.close()
            return outcome(end)
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

    def _second(self, tool: Tool, first: Replica, failure: Lost | NotStarted, hearing: Hearing) -> Replica | None:
        """Who may try it again; nobody once the caller has heard something of the first try, or was asked."""
        if hearing.heard:
            return None
        if isinstance(failure, Lost) and failure.delivered and not means(self._idempotent, str(tool.id)):
            return None
        try:
            second = self._pools.pick(tool.id.toolkit, tool.id.version, (first,))
        except Unavailable:
            return None
        return second if self._budget.spend() else None


def _context(tool: Tool, call: Call, patience: Patience) -> CallContext:
    """What the tool declared, and who calls: nothing of what that was proven by."""
    caller, supply = call.caller, supply_of(call.equipment)
    return CallContext(
        call.id,
        patience.left if isinstance(patience, Deadline) else None,
        SeenCaller(caller.id, caller.person, caller.proof, tuple(sorted(caller.scopes)), caller.acting_for),
        tuple(filter(call.link.can, _FEATURES)),
        supply.user_id if supply is not None and (tool.requirements or {}).get("user_id") is True else None,
        {} if supply is None else supply.secrets,
        {}
        if supply is None
        else {name: LentToken(lent.token, lent.scopes, lent.expires_at) for name, lent in supply.accounts.items()},
    )


def _unavailable(replica: Replica, failure: Lost | NotStarted) -> Unavailable:
    if isinstance(failure, NotStarted):
        return failure
    detail = f"a replica of the tool server {replica.server!r} was lost: {failure.why}"
    return Unavailable(_LOST if failure.delivered else _NOT_REACHED, detail=detail)
