"""TaskRights: whether a caller may see a task now, and how often tasks may be looked at, and unknown ones looked for.

A caller sees its task for as long as it may call the task's tool: whoever lost the right to call it gets nothing of a
call of earlier, neither its state nor its result.
"""

import time

from toolhall.model.caller import Allow, Caller, Deny, RequireVerification
from toolhall.model.errors import Limited, ToolhallError
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.rate_buckets import Charge, Rate, RateBucket, take_charges
from toolhall.pipeline.tasks.rows import TaskRows
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry
from toolhall.schema.defaults import argument_readings
from toolhall.stores.tasks import StoredTask

MAX_POLL_BURST = 20
MAX_POLLED = 10_000  # tasks whose polls are counted
LOOKUP_RATE = Rate(per_second=20, burst=40)  # of unknown tasks, and of pages, per caller


class TaskRights:
    """What callers may see of tasks."""

    def __init__(self, rows: TaskRows, registry: Registry, policy: LevelPolicy) -> None:
        self._rows = rows
        self._registry = registry
        self._policy = policy
        self._lookups = RateBucket(LOOKUP_RATE)
        self._polls: dict[str, tuple[float, float]] = {}  # by task: tokens, and when they were counted

    async def may_see(self, row: StoredTask, caller: Caller) -> bool:
        """Whether a caller may call the tool of this task now; conditions of grants are met by its arguments."""
        entry = self._find(row.tool)
        if entry is None or not self._policy.can_see(caller, entry.tool):
            return False
        verdict = self._policy.authorize(caller, entry.tool)
        if isinstance(verdict, Deny):
            return False
        return not verdict.conditional or await self._meets_conditions(row, caller, entry, verdict)

    def check_lookups(self, caller: Caller) -> None:
        """Raise Limited for a caller who looked for too many unknown tasks, before the store is read."""
        wait = self._charge(caller).wait(time.monotonic())
        if wait > 0.0:
            raise Limited(wait)

    def count_lookup(self, caller: Caller) -> None:
        """Count a look for an unknown task, or at a page; raises Limited."""
        wait = take_charges((self._charge(caller),), time.monotonic())
        if wait > 0.0:
            raise Limited(wait)

    def count_poll(self, row: StoredTask) -> None:
        """Allow two looks at a task in each of its poll intervals, and a burst; raises Limited."""
        now, interval = time.monotonic(), row.poll_ms / 2000
        tokens, since = self._polls.pop(row.id, (float(MAX_POLL_BURST), now))
        tokens = min(float(MAX_POLL_BURST), tokens + (now - since) / interval)
        if len(self._polls) >= MAX_POLLED:
            del self._polls[next(iter(self._polls))]
        self._polls[row.id] = (max(tokens - 1, 0.0), now)
        if tokens < 1:
            raise Limited(interval)

    def forget_polls(self, task_id: str) -> None:
        """Stop counting for a task that is gone."""
        self._polls.pop(task_id, None)

    def _charge(self, caller: Caller) -> Charge:
        return Charge.of(self._lookups, caller.rate_limit_key, 1.0)

    def _find(self, tool_id: str) -> Entry | None:
        """The tool in the version that the task was made with; if that is gone, in the newest one."""
        snapshot = self._registry.snapshot
        return snapshot.find(tool_id) or snapshot.find(tool_id.partition("@")[0])

    async def _meets_conditions(
        self, row: StoredTask, caller: Caller, entry: Entry, verdict: Allow | RequireVerification
    ) -> bool:
        try:
            given = (await self._rows.call(row)).arguments
            return not any(
                isinstance(self._policy.authorize_arguments(verdict, caller, entry.tool, arguments), Deny)
                for arguments in argument_readings(entry.tool.input, given, entry.bind)
            )
        except ToolhallError:  # another version refuses them, or they do not open
            return False
