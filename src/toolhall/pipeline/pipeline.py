"""Pipeline: runs a call through every stage in order; the only way to a tool.

Theory of operation
-------------------
`Pipeline.answer` is the order of the stages; `pipeline.states` has their types. Three things surround them:

- Whatever happens, one audit record is written at the end, the tool's slot is released, and metrics and spans are
  recorded. CallOutcome collects what these need: the last state, the outcome's name, the error.
- From level 4 up, an intent record is durable before the tool runs. If it cannot be written, the tool does not run.
- A refusal by find or authorize counts for the caller's rate limit, so that tools cannot be guessed without limit.

The record names the stage in which the call ended, which its last state tells. How long each stage took is known of
few calls only: those run through the same stages, watched by StageTimes.

A stage returns its state, or an awaitable of it only if it has to wait: most calls never leave the event loop's current
step before the tool itself does.
"""

import logging
from asyncio import CancelledError
from collections.abc import Awaitable
from typing import TypeAlias, TypeVar

import msgspec

from toolhall.concurrency import on_first_suspend
from toolhall.model.call_records import CallStage
from toolhall.model.caller import GRANT_FROM
from toolhall.model.content import Result
from toolhall.model.errors import Broken, Limited, Refused, Retired, ToolhallError, Unavailable
from toolhall.model.messages import Call, CompletedCall, InputRequired, InputRequiredSignal
from toolhall.pipeline.audit import Audit, CallEnding
from toolhall.pipeline.call_recorder import CallRecorder, PendingRecording
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Find
from toolhall.pipeline.limit import Limit
from toolhall.pipeline.plans import CallPlans, equip_unguarded
from toolhall.pipeline.resource_changes import ResourceChanges
from toolhall.pipeline.stage_times import SLOW_SECONDS, StageTimes, TimedCalls
from toolhall.pipeline.states import (
    STAGE_AFTER,
    Admitted,
    Allowed,
    CallState,
    Equipped,
    Found,
    StageChain,
    Valid,
    Verified,
)
from toolhall.pipeline.verify import Verify
from toolhall.registry.snapshot import Entry
from toolhall.telemetry import UNKNOWN_TOOL, CallSpan, Telemetry

_log = logging.getLogger("toolhall")
T = TypeVar("T")
EndedT = TypeVar("EndedT", bound=BaseException)
_CallAnswer: TypeAlias = CompletedCall | InputRequired | ToolhallError
_OUTCOMES: dict[type[BaseException], str] = {CancelledError: "Cancelled", InputRequiredSignal: "asked"}


class Stages(StageChain, frozen=True, kw_only=True):
    """Every stage of the pipeline."""

    find: Find
    limit: Limit
    verify: Verify
    equip: Equip
    audit: Audit
    plans: CallPlans | None = None  # None: find and authorize decide every call anew
    record: CallRecorder | None = None  # None: no tool's calls are recorded
    telemetry: Telemetry | None = None
    changes: ResourceChanges = msgspec.field(default_factory=ResourceChanges)  # of resources, told to who subscribed


class CallOutcome(CallEnding, eq=False):
    """What the audit, the metrics and the recording need to know of a call; filled in stage by stage."""

    reached_run: bool = False  # whether the tool was started
    recording: PendingRecording | None = None
    entry: Entry | None = None  # the tool that was found: only its id becomes a metric label
    stage: CallStage | None = "audit"  # unless an earlier one ends the call

    def finish(self, result: Result) -> None:
        """Note that the tool returned; a recording gets the sanitized result, as the caller does."""
        encoded = result.encoded
        self.bytes_out = 0 if encoded is None else len(encoded)
        self.outcome = "tool_error" if result.is_error else "ok"
        if self.recording is not None:
            self.recording.finish(result)

    def fail(self, ended: EndedT, passed: CallState) -> EndedT:
        """Note that the call was refused, failed or was cancelled after this state; returns what ended it."""
        self.error = ended
        self.stop_after(passed)
        self.outcome = outcome_name(type(ended))
        if isinstance(ended, ToolhallError):
            ended.reached_tool = self.reached_run  # always: a tool may raise any error, with any attribute
            if ended.detail:
                _log.warning("%s: %s", type(ended).__name__, ended.detail)
        if isinstance(ended, Retired):  # the audit shows who still calls it
            self.reached = ended.tool
        if self.recording is not None:
            self.recording.finish(ended)
        return ended

    def abandon(self, ended: BaseException, passed: CallState) -> None:
        """Note that something other than an error of the tree ended the call after this state."""
        if isinstance(ended, CancelledError):
            self.fail(ended, passed)
        else:
            self.stop_after(passed)

    def stop_after(self, passed: CallState) -> None:
        """Note in which stage the call ended: the one after this state, as far as the state can tell."""
        match passed:
            case Call():  # find and authorize decide together, and a refusal of theirs counts
                authorizing = type(self.reached) is Found
                limited = isinstance(self.error, Limited)
                self.stage = "limit" if limited else "authorize" if authorizing else "find"
            case Valid() if type(self.reached) is Verified:
                self.stage = "equip"
            case Equipped() if not self.reached_run:
                self.stage = "audit"  # its intent record was not written
            case _:
                self.stage = STAGE_AFTER[type(passed)]


class Pipeline:
    """Runs calls through every stage; the only way to a tool."""

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self._chain = stages.bound()
        self._plans = stages.plans
        self._record = stages.record
        self._telemetry = stages.telemetry
        self._spans = stages.telemetry.tracer if stages.telemetry else None
        self.audit = stages.audit
        self.timed = TimedCalls()

    @property
    def running_calls(self) -> int:
        """The number of calls that were admitted and have not ended."""
        return self.stages.limit.running

    async def answer(self, call: Call) -> _CallAnswer:
        """Run one call through every stage, in order; raises nothing but cancellation."""
        outcome = CallOutcome()
        stages: StageChain = self._take_times(call, outcome) if next(self.timed.calls) else self._chain
        span = None if self._spans is None else self._spans.start_span(call)
        admitted = None
        passed: CallState = call
        try:
            passed = allowed = self._authorize(call, outcome, stages)
            passed = admitted = stages.limit(allowed)
            valid = stages.validate(admitted)  # arguments against the compiled schema
            if not isinstance(valid, Valid):  # a stage is awaited only when it has to wait
                valid = await self._suspended(call, valid)
            passed = valid
            if allowed.unguarded is not None and call.caller_credentials is None:
                equipped = equip_unguarded(allowed.unguarded, valid)  # proven: verify and equip have nothing to do
            else:
                equipped = await on_first_suspend(self._guard(valid, outcome, stages), call.suspended)
            passed = outcome.reached = equipped
            if equipped.verdict.level >= GRANT_FROM:
                await self._intent(call, equipped, outcome)  # durable before any side effect
            elif call.encoded_arguments is None:
                self.audit.keep_arguments(call)
            if self._record is not None:  # before the tool can change its arguments
                outcome.recording = self._record(equipped)
            outcome.reached_run = True
            passed = raw = await stages.run(equipped)  # deadline, cancellation, progress
            passed = checked = stages.check(raw)  # output schema, size
            result = stages.sanitize(checked)  # control characters and secrets
            if not isinstance(result, Result):
                result = await self._suspended(call, result)
            outcome.finish(result)
            answer: _CallAnswer = CompletedCall(equipped.entry.tool, result)
        except ToolhallError as error:
            answer = outcome.fail(error, passed)
        except InputRequiredSignal as signal:
            outcome.fail(signal, passed)
            answer = InputRequired(signal.questions, signal.consent)
        except Exception:  # noqa: BLE001 - a fault of ours ends one call, never the server
            _log.exception("internal error while answering CallTool")
            outcome.stop_after(passed)
            answer = Broken()
        except BaseException as ended:
            outcome.abandon(ended, passed)
            self._end(call, admitted, outcome, span)
            raise
        return answer if self._end(call, admitted, outcome, span) else Broken()

    def _end(self, call: Call, admitted: Admitted | None, outcome: CallOutcome, span: CallSpan | None) -> bool:
        """Release the tool's slot, write the audit record, count the call and end its span; False if that failed."""
        entry, ending, times = outcome.entry, outcome.outcome, outcome.times
        try:
            if times is not None:
                times.enter("audit")
            if admitted is not None:
                self.stages.limit.release(admitted)
            seconds = self.audit.write(call, outcome)
            if times is None and (seconds > SLOW_SECONDS or ending != "ok"):
                self.timed.follow_up()
            if self._telemetry is not None:
                self._telemetry.record_call(UNKNOWN_TOOL if entry is None else entry.id, call.dialect, ending, seconds)
            if span is not None:
                span.end(None if entry is None else (entry.tool.name, entry.id), ending)
        except Exception:  # noqa: BLE001 - a fault of ours ends one call, never the server
            _log.exception("internal error while recording a call")
            return False
        return True

    @staticmethod
    async def _suspended(call: Call, waiting: Awaitable[T]) -> T:
        """Wait for a stage; whoever watches the client learns that the call is suspended."""
        call.suspended()
        return await waiting

    def _take_times(self, call: Call, outcome: CallOutcome) -> StageChain:
        """Return the stages of a call whose times are taken."""
        outcome.times = StageTimes(call.started, self.audit.timer)
        return outcome.times.watch(self.stages)

    def _intent(self, call: Call, equipped: Equipped, outcome: CallOutcome) -> Awaitable[None]:
        """Record what is about to happen; the wait is the time of the audit."""
        if outcome.times is not None:
            outcome.times.enter("audit")
        return self.audit.intent(call, equipped)

    @staticmethod
    async def _guard(valid: Valid, outcome: CallOutcome, stages: StageChain) -> Equipped:
        verified = stages.verify(valid)  # conditions of grants; a person's approval of this exact call
        if not isinstance(verified, Verified):
            verified = await verified
        outcome.reached = verified
        equipped = stages.equip(verified)  # secrets and accounts: fetched late, held briefly
        return equipped if isinstance(equipped, Equipped) else await equipped

    def refuse(self, call: Call, error: ToolhallError) -> ToolhallError:
        """Record and count a call that its dialect rejected; returns the error, or Limited after too many."""
        try:
            self.stages.limit.count_refusal(call)
        except Limited as limited:
            error = limited
        self.record_refusal(call, error)
        return error

    def record_refusal(self, call: Call, error: ToolhallError) -> None:
        """Record a call that was rejected before it came here, without counting it."""
        stage: CallStage = "limit" if isinstance(error, Limited) else "find"
        self.audit.write(call, CallEnding.of(outcome_name(type(error)), None, error, stage))

    def record_unknown(self, call: Call, error: ToolhallError) -> None:
        """Record that a stored call was running when its process ended, and is not run again."""
        self.audit.write(call, CallEnding.of(outcome_name(type(error)), None, error, "run"))

    async def record_repeat(self, call: Call) -> None:
        """Record a call that gets the stored answer of an equal one; raises what a new call would be refused with."""
        stages, outcome = self.stages, CallOutcome()
        passed: CallState = call
        try:
            passed = allowed = self._authorize(call, outcome, stages)
            passed = admitted = stages.limit(allowed)
            stages.limit.release(admitted)  # nothing runs
            valid = stages.validate(admitted)
            if not isinstance(valid, Valid):
                valid = await valid
            passed = valid
            outcome.reached = Allowed(call, valid.entry, stages.verify.authorize_arguments(valid))
            outcome.outcome = "repeated"
        except ToolhallError as error:
            outcome.fail(error, passed)
            raise
        except BaseException as ended:
            outcome.abandon(ended, passed)
            raise
        finally:
            self.audit.write(call, outcome)

    def _authorize(self, call: Call, outcome: CallOutcome, stages: StageChain) -> Allowed:
        """Find and authorize, unless a plan has decided both before; a refusal counts for the caller's rate limit."""
        plans = self._plans
        plan = None if plans is None else plans.find(call)
        if plan is not None:
            outcome.entry = entry = plan.entry
            outcome.reached = allowed = Allowed(call, entry, plan.verdict, plan.unguarded, plan.charges)
            return allowed
        try:
            outcome.reached = found = stages.find(call)  # NotFound for a tool this caller may not see
            outcome.entry = found.entry
            outcome.reached = allowed = stages.authorize(found)  # level, credential, grants: none means no
        except (Refused, Unavailable):
            self.stages.limit.count_refusal(call)
            raise
        if plans is not None:
            plans.add(allowed)
        return allowed


def outcome_name(kind: type[BaseException]) -> str:
    """Return the error class's name for the audit, or that of its nearest base in model.errors: these are public."""
    known = _OUTCOMES.get(kind)
    if known is None:
        public = next((each for each in kind.__mro__ if each.__module__ == ToolhallError.__module__), kind)
        known = _OUTCOMES[kind] = public.__name__
    return known
