"""Pipeline: runs a call through every stage in order; CallOutcome notes how far it came and how it ended.

This is the only way to a tool.
"""

from asyncio import CancelledError

import msgspec

from toolhall.model.caller import GRANT_FROM
from toolhall.model.content import Result
from toolhall.model.errors import Limited, Refused, Retired, ToolhallError
from toolhall.model.messages import Call, CompletedCall, InputRequiredSignal
from toolhall.pipeline.audit import Audit, StageReached
from toolhall.pipeline.authorize import Authorize
from toolhall.pipeline.call_recorder import CallRecorder, PendingRecording
from toolhall.pipeline.check import Check
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Find
from toolhall.pipeline.limit import Limit
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.states import Allowed, Equipped, Valid, Verified
from toolhall.pipeline.validate import Validate
from toolhall.pipeline.verify import Verify
from toolhall.redaction.redactor import Redactor
from toolhall.registry.snapshot import Entry
from toolhall.telemetry.metrics import Telemetry


class CallOutcome:
    """Filled in by the pipeline, stage by stage."""

    __slots__ = ("ended", "entry", "kept", "outcome", "ran", "reached", "redactor", "size")

    def __init__(self) -> None:
        self.reached: StageReached = None  # or the id of what is no more
        self.outcome = "Broken"
        self.ran = False  # whether the run stage was reached
        self.size = 0
        self.ended: BaseException | None = None
        self.kept: PendingRecording | None = None
        self.entry: Entry | None = None  # what was found: no other name is worth counting
        self.redactor: Redactor | None = None

    def finish(self, result: Result) -> None:
        """It ran to its end; what is kept of it is clean, as the caller gets it."""
        self.outcome, self.size = "tool_error" if result.is_error else "ok", len(result.encoded or b"")
        if self.kept is not None:
            self.kept.finish(result)

    def fail(self, ended: BaseException) -> None:
        """It was refused, it failed, or nobody wants it any more."""
        self.ended = ended
        self.outcome = outcome_name(type(ended))
        if isinstance(ended, ToolhallError):
            ended.reached_tool = self.ran  # always: a tool may raise any error, with any attribute
        if isinstance(ended, Retired):  # who still calls it is worth knowing
            self.reached = ended.tool
        if self.kept is not None:
            self.kept.finish(ended)


_OUTCOMES: dict[type[BaseException], str] = {CancelledError: "Cancelled", InputRequiredSignal: "asked"}


def outcome_name(kind: type[BaseException]) -> str:
    """The name of the error, or of the nearest that everybody knows: a record has no names of ours alone."""
    known = _OUTCOMES.get(kind)
    if known is None:
        told = next((each for each in kind.__mro__ if each.__module__ == ToolhallError.__module__), kind)
        known = _OUTCOMES[kind] = told.__name__
    return known


class Stages(msgspec.Struct, frozen=True, kw_only=True):
    """Every stage of the pipeline, ready to be called."""

    find: Find
    authorize: Authorize
    limit: Limit
    validate: Validate
    verify: Verify
    equip: Equip
    run: Run
    check: Check
    sanitize: Sanitize
    audit: Audit
    record: CallRecorder | None = None  # None: no tool's calls are kept
    telemetry: Telemetry | None = None


class Pipeline:
    """The only way to a tool."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._telemetry = stages.telemetry
        self._spans = stages.telemetry.tracer if stages.telemetry else None
        self.audit = stages.audit

    async def __call__(self, call: Call) -> CompletedCall:
        """Run one call through every stage; each takes the promise of the one before, so none can be left out."""
        stages, trace = self._stages, CallOutcome()
        span = None if self._spans is None else self._spans.start_span(call)
        admitted = None
        try:
            allowed = self._authorize(call, trace)
            admitted = stages.limit(allowed)
            valid = stages.validate(admitted)  # arguments against the compiled schema
            if not isinstance(valid, Valid):  # a stage is awaited only when it has to wait
                valid = await valid
            verified = stages.verify(valid)  # conditions of a grant; a person's yes to this exact call
            if not isinstance(verified, Verified):
                verified = await verified
            equipped = stages.equip(verified)  # secrets and accounts: fetched late, held briefly
            if not isinstance(equipped, Equipped):
                equipped = await equipped
            trace.reached = equipped
            trace.redactor = equipped.redactor
            if equipped.verdict.level >= GRANT_FROM:
                await stages.audit.intent(call, equipped)  # durable before any side effect
            else:
                stages.audit.keep_arguments(call)
            if stages.record is not None:  # before the tool can change its arguments
                trace.kept = stages.record(equipped)
            trace.ran = True
            raw = await stages.run(equipped)  # deadline, cancellation, progress
            result = stages.sanitize(stages.check(raw))  # output schema, size; then strip
            if not isinstance(result, Result):
                result = await result
            trace.finish(result)
            return CompletedCall(equipped.entry.tool, result)
        except (ToolhallError, CancelledError, InputRequiredSignal) as ended:
            trace.fail(ended)
            raise
        finally:
            if admitted is not None:
                stages.limit.release(admitted)
            redactions = 0 if trace.redactor is None else trace.redactor.count
            stages.audit.write(call, trace.reached, trace.outcome, trace.size, trace.ended, redactions)
            tool = trace.entry
            if self._telemetry is not None:
                seconds = stages.audit.timer() - call.started
                self._telemetry.record_call(call, None if tool is None else tool.id, trace.outcome, seconds)
            if span is not None:
                span.end(None if tool is None else (tool.tool.name, tool.id), trace.outcome)

    def refuse(self, call: Call, error: ToolhallError) -> ToolhallError:
        """Record a call that was refused before it came here; it counts too, and Limited is the answer to too many."""
        try:
            self._stages.limit.count_refusal(call)
        except Limited as limited:
            error = limited
        self.record_refusal(call, error)
        return error

    def record_refusal(self, call: Call, error: ToolhallError) -> None:
        """Record a call that was refused before it came here, and nothing more."""
        self.audit.write(call, None, outcome_name(type(error)), ended=error)

    async def record_repeat(self, call: Call) -> None:
        """Record a call that is answered as the same call was before; raises what a new one would be refused with."""
        stages, trace = self._stages, CallOutcome()
        try:
            admitted = stages.limit(self._authorize(call, trace))
            stages.limit.release(admitted)  # nothing runs
            valid = stages.validate(admitted)
            if not isinstance(valid, Valid):
                valid = await valid
            trace.reached = Allowed(call, valid.entry, stages.verify.authorize_arguments(valid))
            trace.outcome = "repeated"
        except (ToolhallError, CancelledError) as ended:
            trace.fail(ended)
            raise
        finally:
            self.audit.write(call, trace.reached, trace.outcome, ended=trace.ended)

    def _authorize(self, call: Call, outcome: CallOutcome) -> Allowed:
        """The tool, if the caller may call it; what is refused here counts for the caller's limit too."""
        stages = self._stages
        try:
            outcome.reached = found = stages.find(call)  # NotFound for a tool this caller may not see
            outcome.entry = found.entry
            outcome.reached = allowed = stages.authorize(found)  # level, credential, grants: none means no
        except Refused:
            stages.limit.count_refusal(call)
            raise
        return allowed
