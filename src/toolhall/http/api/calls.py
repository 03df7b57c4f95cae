"""`GET /api/calls/{call}`: the records of one call, its ten stages, and in words why it ended there."""

from collections.abc import Sequence
from itertools import repeat

from toolhall.http.api.access import grant_json
from toolhall.http.api.base import (
    ItemHandlers,
    ManagementContext,
    dispatch_below,
    json_response,
    query_parameters,
)
from toolhall.http.api.tool_summaries import summary_for_callers, tool_summary
from toolhall.http.request import HttpRequest, Methods
from toolhall.model.call_records import CALL_STAGES, AuditRecord, CallStage, OutcomeKind, outcome_kind
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, NotFound
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import WireResponse
from toolhall.stores.audit.filters import AuditQuery
from toolhall.stores.audit.query import FoundRecord, record_document

PREFIX = "/api/calls/"
_MAX_RECORDS = 10  # of one call; there are two at most
_NOT_FOUND = "nothing is recorded of this call: it never was, it has not ended yet, or its records were dropped by age"
# Records from before stages were recorded: where calls with these outcomes usually ended.
_USUAL_STAGES: dict[str, CallStage] = {
    "NotFound": "find",
    "NotActive": "find",
    "Retired": "find",
    "Malformed": "find",
    "Unauthenticated": "find",
    "Denied": "authorize",
    "Limited": "limit",
    "BadArguments": "validate",
    "NeedsVerification": "verify",
    "NeedsRequirement": "equip",
    "BadOutput": "check",
    "ok": "audit",
    "tool_error": "audit",
    "repeated": "audit",
}
# By outcome: why the call ended there, and what to do; `{caller}`, `{tool}`, `{level}` and `{rule}` are of the record.
_WORDS: dict[str, tuple[str, str]] = {
    "NotFound": (
        "No tool of this name is served, or {caller} may not see it.",
        "Check the name; if the tool is there, grant it to {caller}, or give its credential the scope of the toolkit.",
    ),
    "NotActive": ("The tool is registered, but not active.", "Look at it, and activate it."),
    "Retired": ("The last day of {tool} is over.", "Call its successor, or deprecate it with a later day."),
    "Malformed": ("The request was not valid in its dialect.", "Correct what the client sends."),
    "Unauthenticated": (
        "The request had no valid credential, and this tool needs one.",
        "Send a key or a token that has not ended.",
    ),
    "Denied": ("{rule}", "Change the rule that decided, or call as somebody whom it permits."),
    "Limited": (
        "{caller} called more often than the limits allow, or the tool ran as many calls at once as it may.",
        "Call less often, or raise the limit of callers, of the tool, or of both.",
    ),
    "BadArguments": (
        "The arguments do not match the input schema of {tool}.",
        "Correct the arguments; the answer to the caller names each place.",
    ),
    "Unsupported": ("The client lacks a feature that the tool needs.", "Use a client that supports it."),
    "NeedsVerification": (
        "Level {level} needs a person's yes to exactly this call.",
        "Approve it, and call again with the same arguments.",
    ),
    "NeedsRequirement": (
        "A secret or a linked account that {tool} needs is missing.",
        "Set the secret, or link the account, and call again.",
    ),
    "ToolFailed": ("The tool said that it failed.", "The answer to the caller has the tool's own words."),
    "ToolError": ("The tool said that it failed.", "The answer to the caller has the tool's own words."),
    "Crashed": ("The tool ended with an error that it does not handle.", "The server's log has it, under this call."),
    "TimedOut": ("The tool did not finish before its deadline.", "Make it faster, or raise its timeout."),
    "Cancelled": ("The caller cancelled the call, or was gone.", "Nothing, if that was meant."),
    "BadOutput": (
        "The tool returned something other than its output schema promises, or too much.",
        "Correct the tool or its schema; the server's log names the place.",
    ),
    "Unavailable": ("What runs the tool could not be reached.", "See whether its tool server runs."),
    "OutcomeUnknown": (
        "The hall stopped while this long call ran, and running it again could do it twice.",
        "Find out what it did, and call again if need be.",
    ),
    "Broken": ("The hall itself failed.", "The server's log has the error."),
    "asked": ("The tool asked its caller a question.", "The call goes on once the caller has answered."),
}
_AUDIT_WORDS = (
    "What the call was about to do could not be recorded, so the tool did not run.",
    "Make room on the disk of the audit, or look at what the server's log and Health say about it.",
)


class CallsApi:
    """`/api/calls/{call}`, for administrators and observers; other callers see their own calls."""

    def __init__(self, context: ManagementContext) -> None:
        self._context = context

    def endpoints(self) -> dict[str, Methods]:
        """Return the route of calls."""
        return {PREFIX: dispatch_below(self._find_item, "there is nothing here; /api/calls/ID is a call")}

    def _find_item(self, request: HttpRequest) -> tuple[str, ItemHandlers] | None:
        match request.path_segments(PREFIX):
            case [str(call)] if call:
                return call, {"GET": self._show}
            case _:
                return None

    async def _show(self, request: HttpRequest, call: str) -> WireResponse:
        query_parameters(request)
        page = await self._context.search_calls(AuditQuery(call=call), _MAX_RECORDS, request.caller)
        if not page.records:
            raise NotFound(_NOT_FOUND)
        intent = next((each for each in page.records if each.record.phase is not None), None)
        end = next((each for each in page.records if each.record.phase is None), None)
        record = page.records[0].record
        return json_response(
            {
                "call": call,
                "kind": call_kind(None if end is None else end.record),
                "intent": _document(intent),
                "end": _document(end),
                "stages": stage_rows(None if end is None else end.record),
                "grant": self._grant(record.grant),
                "approval": await self._approval(record.approval, request.caller),
                "tool": self._tool(record.tool, request.caller),
            }
        )

    def _grant(self, grant_id: str | None) -> Json:
        return next((grant_json(each) for each in self._context.access.grants.all if each.id == grant_id), None)

    async def _approval(self, approval_id: str | None, caller: Caller) -> Json:
        describe = self._context.describe_approval
        if approval_id is None or describe is None:
            return None
        try:
            return await describe(approval_id, caller)
        except (NotFound, Denied):  # dropped, or not for this observer
            return None

    def _tool(self, tool_id: str, caller: Caller) -> Json:
        registration, dispatcher = self._context.registration, self._context.dispatcher
        sees_all = dispatcher.admin.may_observe(caller)
        if not sees_all and dispatcher.visible_snapshot(caller).find(tool_id) is None:
            return None
        try:
            summary = tool_summary(registration.find(tool_id), registration)
        except NotFound:  # it was removed, or it never was
            return None
        return summary if sees_all else summary_for_callers(summary)


def call_kind(end: AuditRecord | None) -> OutcomeKind:
    """Return what kind of ending a call has; without one it runs, as far as is known."""
    return "running" if end is None else outcome_kind(end.outcome)


def ended_in(record: AuditRecord) -> CallStage:
    """Return the stage in which a call ended; for old records, where calls of its outcome usually end."""
    return record.stage or _USUAL_STAGES.get(record.outcome, "run")


def stage_rows(end: AuditRecord | None) -> list[Json]:
    """Return the ten stages of a call with their states and times, and the reason where it stopped."""
    if end is None:
        last = CALL_STAGES.index("run")  # an intent is recorded just before
        return [_row(stage, "passed" if place < last else "not_reached") for place, stage in enumerate(CALL_STAGES)]
    stage, kind = ended_in(end), outcome_kind(end.outcome)
    times: Sequence[int | None] = end.stages_us or list(repeat(None, len(CALL_STAGES)))
    passed_all = kind in {"ok", "tool_error"}
    rows: list[Json] = []
    for place, (each, us) in enumerate(zip(CALL_STAGES, times, strict=True)):
        if end.outcome == "repeated" and CALL_STAGES.index("verify") < place < CALL_STAGES.index("audit"):
            rows.append(_row(each, "skipped", us))
        elif not passed_all and each == stage:
            rows.append(_row(each, "stopped", us, *explain(end)))
        elif passed_all or (place < CALL_STAGES.index(stage) and not _skipped_by_audit(each, stage)):
            rows.append(_row(each, "passed", us))
        else:
            rows.append(_row(each, "not_reached", us))
    return rows


def explain(end: AuditRecord) -> tuple[str, str]:
    """Return why a call ended where it did, as a sentence that names the rule, and what to do."""
    if ended_in(end) == "audit":
        return _AUDIT_WORDS
    reason, fix = _WORDS.get(end.outcome, ("The call ended with {outcome}.", "The server's log may say more."))
    if end.grant is not None and end.outcome == "NotFound":
        reason = "{caller} may not see this tool: {rule}"
    facts = {
        "caller": end.caller,
        "tool": end.tool,
        "level": "?" if end.level is None else str(end.level),
        "outcome": end.outcome,
        "rule": _rule(end),
    }
    return reason.format(**facts), fix.format(**facts)


def _rule(end: AuditRecord) -> str:
    """Return which rule refused, in words."""
    reason = "no rule permits it" if end.reason is None else end.reason
    sentence = reason[:1].upper() + reason[1:] + ("" if reason.endswith(".") else ".")
    by = f" Grant {end.grant} decided that." if end.grant is not None else ""
    return f"{sentence}{by} The tool has level {end.level}." if end.level is not None else f"{sentence}{by}"


def _skipped_by_audit(stage: CallStage, ended: CallStage) -> bool:
    """Whether a stage was not reached because the intent could not be recorded, which comes before the tool runs."""
    return ended == "audit" and stage in {"run", "check", "sanitize"}


def _row(
    stage: CallStage, state: str, us: int | None = None, reason: str | None = None, fix: str | None = None
) -> JsonObject:
    reached = state in {"passed", "stopped"} or stage == "audit"
    return {"stage": stage, "state": state, "us": us if reached else None, "reason": reason, "fix": fix}


def _document(found: FoundRecord | None) -> Json:
    return None if found is None else record_document(found)
