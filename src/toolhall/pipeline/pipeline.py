"""The order of the stages, and nothing else."""

from asyncio import CancelledError

import msgspec

from toolhall.model.call import Call
from toolhall.model.content import Result
from toolhall.model.errors import Limited, Refused, ToolhallError
from toolhall.model.exchange import Asking, Finished
from toolhall.model.levels import GRANTED_FROM
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Authorize
from toolhall.pipeline.check import Check
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Find
from toolhall.pipeline.limit import Limit
from toolhall.pipeline.record import Recorder
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.states import Allowed, Equipped, Valid, Verified
from toolhall.pipeline.trace import Trace, outcome_of
from toolhall.pipeline.validate import Validate
from toolhall.pipeline.verify import Verify
from toolhall.telemetry.figures import Telemetry


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
    record: Recorder | None = None  # None: no tool's calls are kept
    telemetry: Telemetry | None = None


class Pipeline:
    """The only way to a tool."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._telemetry = stages.telemetry
        self._spans = stages.telemetry.spans if stages.telemetry else None
        self.audit = stages.audit

    async def __call__(self, call: Call) -> Finished:
        """Run one call through every stage; each takes the promise of the one before, so none can be left out."""
        stages, trace = self._stages, Trace()
        span = None if self._spans is None else self._spans.begin(call)
        admitted = None
        try:
            allowed = self._allowed(call, trace)
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
            if equipped.verdict.level >= GRANTED_FROM:
                await stages.audit.intent(call, equipped)  # durable before any side effect
            else:
                stages.audit.keep(call)
            if stages.record is not None:  # before the tool can change its arguments
                trace.kept = stages.record(equipped)
            trace.ran = True
            raw = await stages.run(equipped)  # deadline, cancellation, progress
            result = stages.sanitize(stages.check(raw))  # output schema, size; then strip
            if not isinstance(result, Result):
                result = await result
            trace.finish(result)
            return Finished(equipped.entry.tool, result)
        except (ToolhallError, CancelledError, Asking) as ended:
            trace.end(ended)
            raise
        finally:
            if admitted is not None:
                stages.limit.end(admitted)
            redactions = 0 if trace.redactor is None else trace.redactor.count
            stages.audit.write(call, trace.reached, trace.outcome, trace.size, trace.ended, redactions)
            tool = trace.entry
            if self._telemetry is not None:
                seconds = stages.audit.timer() - call.started
                self._telemetry.ended(call, None if tool is None else tool.id, trace.outcome, seconds)
            if span is not None:
                span.end(None if tool is None else (tool.tool.name, tool.id), trace.outcome)

    def refuse(self, call: Call, error: ToolhallError) -> ToolhallError:
        """Record a call that was refused before it came here; it counts too, and Limited is the answer to too many."""
        try:
            self._stages.limit.refused(call)
        except Limited as limited:
            error = limited
        self.note(call, error)
        return error

    def note(self, call: Call, error: ToolhallError) -> None:
        """Record a call that was refused before it came here, and nothing more."""
        self.audit.write(call, None, outcome_of(type(error)), ended=error)

    async def repeat(self, call: Call) -> None:
        """Record a call that is answered as the same call was before; raises what a new one would be refused with."""
        stages, trace = self._stages, Trace()
        try:
            admitted = stages.limit(self._allowed(call, trace))
            stages.limit.end(admitted)  # nothing runs
            valid = stages.validate(admitted)
            if not isinstance(valid, Valid):
                valid = await valid
            trace.reached = Allowed(call, valid.entry, stages.verify.settled(valid))
            trace.outcome = "repeated"
        except (ToolhallError, CancelledError) as ended:
            trace.end(ended)
            raise
        finally:
            self.audit.write(call, trace.reached, trace.outcome, ended=trace.ended)

    def _allowed(self, call: Call, trace: Trace) -> Allowed:
        """The tool, if the caller may call it; what is refused here counts for the caller's limit too."""
        stages = self._stages
        try:
            trace.reached = found = stages.find(call)  # NotFound for a tool this caller may not see
            trace.entry = found.entry
            trace.reached = allowed = stages.authorize(found)  # level, credential, grants: none means no
        except Refused:
            stages.limit.refused(call)
            raise
        return allowed
