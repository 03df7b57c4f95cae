"""RepeatableCalls: calls that outlive their requests, in dialects that have no tasks.

A call of a tool that is declared with `task=`, made under an id of the client's, is a task inside. If it has not ended
within ANSWER_SECONDS the answer is NotEnded, which each dialect says in its own words, and the same id sent again
by the same caller gets the result. The id of the task is computed from caller, dialect and call id with a key of the
hall's, so that a repeat finds it after a restart and in another process, and nobody can guess it.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Callable

from toolhall.http.call_context import NO_INTERACTION
from toolhall.model.caller import Caller
from toolhall.model.errors import Cancelled, Malformed, NotEnded, ToolhallError
from toolhall.model.json import encode
from toolhall.model.messages import Answer, CallTool, TaskView
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.tasks.rows import TaskTerms, owner_of

ANSWER_SECONDS = 25.0  # less than the 30 seconds after which many clients give up
_ID_BYTES = 16
_REUSED = "this id was used for another call; use a new one"


class RepeatableCalls:
    """The repeatable calls of one dialect."""

    def __init__(self, dispatcher: Dispatcher, dialect: str) -> None:
        self._dispatcher = dispatcher
        self._tasks = dispatcher.tasks
        self._dialect = dialect
        self._starting: dict[str, asyncio.Task[Answer | TaskView]] = {}  # by task id, until it is stored

    async def answer(
        self, call_id: str, request: CallTool, caller: Caller, on_suspend: Callable[[], None] | None = None
    ) -> Answer:
        """Run the call, or return what became of an earlier one; NotEnded if it takes longer than may be waited."""
        if on_suspend is not None:
            on_suspend()
        task_id = self._task_id(call_id, caller)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                started = await self._started(task_id, request, caller)
                if not isinstance(started, TaskView):
                    return started
                return _answer_of(await self._tasks.wait(task_id, caller))
        except TimeoutError:
            return await self._still_running(task_id, caller)
        except ToolhallError as error:
            return error

    async def cancel(self, call_id: str, caller: Caller) -> bool:
        """Cancel the task of a call; False if there is none."""
        task_id = self._task_id(call_id, caller)
        if (starting := self._starting.get(task_id)) is not None:
            await asyncio.wait({starting})
        try:
            await self._tasks.cancel(task_id, caller)
        except ToolhallError:
            return False
        return True

    async def _started(self, task_id: str, request: CallTool, caller: Caller) -> Answer | TaskView:
        """Return the task of this id, made now if there is none; or the answer of a call that did not become one.

        The call begins in a task of its own: it goes on when its request is gone, and repeats wait for it.
        """
        while (starting := self._starting.get(task_id)) is not None:
            await asyncio.wait({starting})
        starting = asyncio.get_running_loop().create_task(self._start(task_id, request, caller))
        self._starting[task_id] = starting
        starting.add_done_callback(lambda done: self._on_started(task_id, done))
        return await asyncio.shield(starting)

    async def _start(self, task_id: str, request: CallTool, caller: Caller) -> Answer | TaskView:
        rows = await self._tasks.own([task_id], caller)
        if not rows:
            return await self._tasks.start(request, caller, NO_INTERACTION, TaskTerms(at_once=True, id=task_id))
        stored = await self._tasks.rows.call(rows[0])
        if (_key_of(stored.tool), stored.arguments) != (_key_of(request.tool), request.arguments):
            return self._dispatcher.refuse(request, caller, Malformed(_REUSED))
        # Authorized and audited like a new call: what is stored needs the same permission.
        refused = await self._dispatcher.record_repeat(request, caller)
        return await self._tasks.view(rows[0]) if refused is None else refused

    def _on_started(self, task_id: str, done: "asyncio.Task[Answer | TaskView]") -> None:
        del self._starting[task_id]
        if not done.cancelled():
            done.exception()  # its request, which may be gone, gets it

    async def _still_running(self, task_id: str, caller: Caller) -> Answer:
        rows = await self._tasks.own([task_id], caller)
        return NotEnded(retry_after=rows[0].poll_ms / 1000) if rows else NotEnded()

    def _task_id(self, call_id: str, caller: Caller) -> str:
        name = encode([owner_of(caller), self._dialect, call_id])
        return hmac.digest(self._tasks.rows.id_key, name, hashlib.sha256)[:_ID_BYTES].hex()


def _key_of(tool_id: str) -> str:
    """`Toolkit.tool`: meanwhile another version may be the newest."""
    return tool_id.partition("@")[0]


def _answer_of(view: TaskView) -> Answer:
    if view.outcome is not None:
        return view.outcome
    return Cancelled() if view.has_ended else NotEnded(retry_after=view.poll)
