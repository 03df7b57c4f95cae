"""Changes to the hall itself: who may make them, and a record before and after each, like for any call."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from toolhall.model.call import Call
from toolhall.model.caller import ADMIN, Caller
from toolhall.model.errors import Denied, ToolhallError
from toolhall.model.exchange import SILENT
from toolhall.model.json import Json
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Policy

T = TypeVar("T")
REFUSAL = f"this caller may not change the hall; only the person at this machine and the scope {ADMIN} may"


class Change(msgspec.Struct, frozen=True):
    """What somebody wants changed: `what` (`register greeter@1.0.0`), the dialect it came in, and what was sent."""

    what: str
    dialect: str
    given: Json
    personal: bool = False  # not about the hall: what is done says itself who may do it


class Manage:
    """The only way to change a hall while it runs."""

    def __init__(self, policy: Policy, audit: Audit, *, new_id: Callable[[], str], timer: Callable[[], float]) -> None:
        self._policy = policy
        self._audit = audit
        self._new_id = new_id
        self._timer = timer

    def allows(self, caller: Caller) -> bool:
        """Whether this caller may change the hall, and see what is registered but not served."""
        return self._policy.manages(caller)

    async def __call__(self, change: Change, caller: Caller, apply: Callable[[], Awaitable[T]]) -> T:
        """Make the change, or Denied, or Unavailable where it could not be recorded.

        The records' dialect ends with `/management`, so no call can look like it.
        """
        dialect = f"{change.dialect}/management"
        call = Call(self._new_id(), change.what, {"given": change.given}, caller, SILENT, dialect, 0, self._timer())
        outcome, ended = "Broken", None
        try:
            if not change.personal and not self.allows(caller):
                raise Denied(REFUSAL)
            await self._audit.intent(call)  # durable before anything changes
            done = await apply()
            outcome = "ok"
        except (ToolhallError, CancelledError) as error:
            outcome = "Cancelled" if isinstance(error, CancelledError) else type(error).__name__
            ended = error
            raise
        finally:
            self._audit.write(call, None, outcome, ended=ended)
        return done
