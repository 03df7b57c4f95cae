"""The order of the stages, and nothing else."""

from asyncio import CancelledError

import msgspec

from toolhall.model.call import Call
from toolhall.model.errors import Refused, Retired, ToolhallError
from toolhall.model.exchange import Asking, Finished
from toolhall.model.levels import GRANTED_FROM
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Authorize
from toolhall.pipeline.check import Check
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Find
from toolhall.pipeline.limit import Limit
from toolhall.pipeline.record import Begun, Recorder
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.states import Allowed, Equipped, Found, Valid, Verified
from toolhall.pipeline.validate import Validate
from toolhall.pipeline.verify import Verify


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


class Pipeline:
    """The only way to a tool."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self.audit = stages.audit

    async def __call__(self, call: Call) -> Finished:
        """Run one call through every stage; each takes the promise of the one before, so none can be left out."""
        stages, outcome, size = self._stages, "Broken", 0
        reached: Found | Allowed | Equipped | str | None = None  # how far it came, or the id of what is no more
        kept: Begun | None = None
        try:
            try:
                reached = found = stages.find(call)  # NotFound for a tool this caller may not see
                reached = allowed = stages.authorize(found)  # level, credential, grants: none means no
            except Refused:
                stages.limit.refused(call)
                raise
            admitted = stages.limit(allowed)  # refused attempts count too
            valid = stages.validate(admitted)  # arguments against the compiled schema
            if not isinstance(valid, Valid):  # a stage is awaited only when it has to wait
                valid = await valid
            verified = stages.verify(valid)  # conditions of a grant; a person's yes to this exact call
            if not isinstance(verified, Verified):
                verified = await verified
            equipped = reached = stages.equip(verified)  # secrets and accounts: fetched late, held briefly
            if equipped.verdict.level >= GRANTED_FROM:  # durable before any side effect
                await stages.audit.intent(call, equipped)
            if stages.record is not None:  # before the tool can change its arguments
                kept = stages.record(equipped)
            raw = await stages.run(equipped)  # deadline, cancellation, progress
            result = stages.sanitize(stages.check(raw))  # output schema, size; then strip
            outcome, size = "tool_error" if result.is_error else "ok", len(result.encoded or b"")
            if kept is not None:  # clean, as the caller gets it
                kept.end(result)
            return Finished(found.entry.tool, result)
        except (ToolhallError, CancelledError, Asking) as ended:
            outcome = _OUTCOMES.get(type(ended), type(ended).__name__)
            if isinstance(ended, Retired):  # who still calls it is worth knowing
                reached = ended.tool
            if kept is not None:
                kept.end(ended)
            raise
        finally:
            stages.audit.write(call, reached, outcome, size)


_OUTCOMES: dict[type[BaseException], str] = {CancelledError: "Cancelled", Asking: "asked"}
