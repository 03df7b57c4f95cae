"""AdminExecutor: authorizes and executes an AdminOperation, with an audit record before and after it."""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from toolhall.model.call_records import MANAGEMENT_SUFFIX
from toolhall.model.caller import ADMIN, Caller
from toolhall.model.errors import Denied, ToolhallError
from toolhall.model.json import Json
from toolhall.model.messages import NULL_LINK, Call
from toolhall.pipeline.audit import Audit, CallEnding
from toolhall.pipeline.policy import LevelPolicy

T = TypeVar("T")
NOT_ADMIN = f"this caller may not change the hall; only the person at this machine and the scope {ADMIN} may"


class AdminOperation(msgspec.Struct, frozen=True):
    """A change to the hall: the action (`register greeter@1.0.0`), its dialect, and the payload for the audit."""

    action: str
    dialect: str
    payload: Json
    personal: bool = False  # does not change the hall; the operation checks by itself who may do it


class AdminExecutor:
    """Executes administrative operations: the only way to change a hall while it runs."""

    def __init__(
        self, policy: LevelPolicy, audit: Audit, *, new_id: Callable[[], str], timer: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._audit = audit
        self._new_id = new_id
        self._timer = timer

    def is_allowed(self, caller: Caller) -> bool:
        """Return whether the caller may change the hall, and see tools that are registered but not served."""
        return self._policy.is_admin(caller)

    def may_observe(self, caller: Caller) -> bool:
        """Return whether the caller may read how the hall is managed: tools, access, calls, settings and health."""
        return self._policy.is_observer(caller)

    async def __call__(self, operation: AdminOperation, caller: Caller, apply: Callable[[], Awaitable[T]]) -> T:
        """Apply the operation; raises Denied, or Unavailable if the audit record cannot be written first.

        The dialect in its records ends with `/management`, so that no tool call can produce the same record.
        """
        call = self._call(operation, caller)
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
            self._audit.write(call, CallEnding.of(outcome, None, ended))
        return done

    def record(self, operation: AdminOperation, caller: Caller) -> None:
        """Record what was done already and changed nothing of the hall, such as signing in; nothing waits for it."""
        self._audit.write(self._call(operation, caller), CallEnding.of("ok"))

    def _call(self, operation: AdminOperation, caller: Caller) -> Call:
        dialect, given = f"{operation.dialect}{MANAGEMENT_SUFFIX}", {"given": operation.payload}
        return Call(self._new_id(), operation.action, given, caller, NULL_LINK, dialect, 0, self._timer())
