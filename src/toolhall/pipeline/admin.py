"""AdminExecutor: authorizes and executes an AdminOperation, with an audit record before and after it."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from toolhall.model.caller import ADMIN, Caller
from toolhall.model.errors import Denied, ToolhallError
from toolhall.model.json import Json
from toolhall.model.messages import NULL_LINK, Call
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Policy

T = TypeVar("T")
NOT_ADMIN = f"this caller may not change the hall; only the person at this machine and the scope {ADMIN} may"


class AdminOperation(msgspec.Struct, frozen=True):
    """What somebody wants changed: `what` (`register greeter@1.0.0`), the dialect it came in, and what was sent."""

    action: str
    dialect: str
    payload: Json
    personal: bool = False  # not about the hall: what is done says itself who may do it


class AdminExecutor:
    """The only way to change a hall while it runs."""

    def __init__(self, policy: Policy, audit: Audit, *, new_id: Callable[[], str], timer: Callable[[], float]) -> None:
        self._policy = policy
        self._audit = audit
        self._new_id = new_id
        self._timer = timer

    def is_allowed(self, caller: Caller) -> bool:
        """Whether this caller may change the hall, and see what is registered but not served."""
        return self._policy.is_admin(caller)

    async def __call__(self, operation: AdminOperation, caller: Caller, apply: Callable[[], Awaitable[T]]) -> T:
        """Make the change, or Denied, or Unavailable where it could not be recorded.

        The records' dialect ends with `/management`, so no call can look like it.
        """
        dialect = f"{operation.dialect}/management"
        call = Call(
            self._new_id(), operation.action, {"given": operation.payload}, caller, NULL_LINK, dialect, 0, self._timer()
        )
        outcome, ended = "Broken", None
        try:
            if not operation.personal and not self.is_allowed(caller):
                raise Denied(NOT_ADMIN)
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
