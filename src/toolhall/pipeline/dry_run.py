"""DryRun: what a call would do, decided by the stages' own code up to equip, without making it.

Theory of operation
-------------------
A dry run builds Find, Authorize and Verify over a policy of its own (`LevelPolicy.with_rules`), so that it decides by
the same code as a call, may decide by other rules than those in force, and fills no cache of the hall. Where a stage
has an effect, its effect-free half is asked instead: `Limit.wait_for` takes nothing, `ApprovalStore.preview` asks
nobody and uses nothing up, `Equip.missing` fetches no token. Arguments are validated as always.

What a dry run says is true at this moment and for this process: rate limits are counted per process.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from toolhall.model.call_records import CallStage
from toolhall.model.caller import Allow, Caller, Deny, RequireVerification
from toolhall.model.errors import BadArguments, Denied, Problem, Retired, ToolhallError, Unavailable
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import NULL_LINK, Call
from toolhall.model.text import clean_text
from toolhall.model.tool import Kind, Tool
from toolhall.pipeline.access_rules import GrantRules
from toolhall.pipeline.approvals import TooManyPending, approval_request
from toolhall.pipeline.find import Authorize
from toolhall.pipeline.pipeline import Stages
from toolhall.pipeline.policy import ANONYMOUS, AUTHENTICATED, LOCAL_PROFILE, LevelPolicy
from toolhall.pipeline.states import Admitted, Allowed, Found, Valid
from toolhall.pipeline.verify import Verify
from toolhall.registry.registry import RETIRED, Registry
from toolhall.registry.snapshot import Entry
from toolhall.registry.uri_index import UriMatch
from toolhall.stores.approvals import CoolingDown

StageState: TypeAlias = Literal["pass", "stop", "ask", "unknown", "not_reached"]
CallVerdict: TypeAlias = Literal["runs", "refused", "asks", "unknown"]
CHECKED_STAGES: tuple[CallStage, ...] = ("find", "authorize", "limit", "validate", "verify", "equip")
DRY_RUN_DIALECT = "check"
_NOT_DECISIVE = ("limit", "validate")  # unknown there: without an address or arguments; the rest can be told
_BY_WORDS = {
    LOCAL_PROFILE: "The caller at this machine may call every tool.",
    AUTHENTICATED: "Up to level 3, every authenticated caller may call it; no grant is needed.",
    ANONYMOUS: "It is open to everybody: level 0, it only reads, and allow_anonymous is set.",
}
_ASKS = {
    "step_up": "asks {person} to verify again, once in 15 minutes",
    "approval": "asks {person} to approve exactly this call",
    "second_person": "asks another person than {person} to approve exactly this call",
}


class CheckedStage(msgspec.Struct, frozen=True):
    """What one stage would do with the call: the rule that decides, and a sentence for people."""

    stage: CallStage
    state: StageState
    rule: str | None
    words: str
    problems: tuple[Problem, ...] = ()


class DryRun:
    """Runs calls through the stages without effects, under one policy."""

    def __init__(self, stages: Stages, registry: Registry, policy: LevelPolicy) -> None:
        """`policy` decides; it is a copy, so that nothing is kept of what it decided."""
        self._stages = stages
        self._registry = registry
        self._policy = policy
        self._find = stages.find.with_policy(policy)
        self._authorize = Authorize(policy)
        self._arguments = Verify(policy)

    async def check(
        self, caller: Caller, tool: str, arguments: JsonObject | None, kind: Kind | None = None
    ) -> list[CheckedStage]:
        """Return what each stage would do; without arguments, as far as it does not depend on them.

        `tool` is a name or an id, or the URI of a resource, which states the arguments. Without a kind, a name is a
        tool's if there is one, an id is that of whatever has it, and what no name or id is may be a URI.
        """
        call = self._call(caller, tool, arguments, kind)
        if call.kind == "resource" and call.requested_name is not None:
            arguments = call.arguments
        checked, allowed = self._access(call)
        if allowed is not None:
            checked.append(self._limit(allowed))
            if checked[-1].state != "stop":
                checked += await self._guards(allowed, arguments)
        return [*checked, *_not_reached(checked)]

    def access(self, caller: Caller, tool: str) -> list[CheckedStage]:
        """Return what `check` says without arguments, but for limits, which change from call to call."""
        checked, allowed = self._access(self._call(caller, tool, None))
        if allowed is not None:
            checked.append(self._verify_any(allowed))
        return checked

    def _call(self, caller: Caller, tool: str, arguments: JsonObject | None, kind: Kind | None = None) -> Call:
        size = 0 if arguments is None else len(encode(arguments))
        snapshot = self._registry.snapshot
        entry = snapshot.find_any(tool) if kind is None else snapshot.of_kind(kind).find(tool)
        found = kind or (None if entry is None else entry.tool.kind)
        if entry is None and found in (None, "resource"):
            match = self._match(caller, tool)
            if match is not None:
                read = match.value.read_texts
                values = read(match.variables) if match.variables and read is not None else {}
                return _call(caller, match.value.id, values, size, "resource", tool)
        if found == "prompt" and entry is not None and entry.read_texts is not None and arguments:
            texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
            arguments = {**arguments, **entry.read_texts(texts)}
        return _call(caller, tool, arguments or {}, size, found or "tool")

    def _match(self, caller: Caller, uri: str) -> UriMatch[Entry] | None:
        """Return what a URI means to this caller; of what it may not see only if nothing else has that URI."""
        snapshot = self._registry.snapshot
        match = snapshot.resources.match(uri)
        if match is None or self._policy.can_see(caller, match.value.tool):
            return match
        return snapshot.filtered(lambda tool: self._policy.can_see(caller, tool)).resources.match(uri) or match

    def _access(self, call: Call) -> tuple[list[CheckedStage], Allowed | None]:
        """Find and authorize; the state of the call is None if it stops in one of them."""
        try:
            found = self._find(call)
        except ToolhallError as error:
            return [self._explain_not_found(call, error)], None
        checked = [CheckedStage("find", "pass", None, f"{call.caller.id} sees {found.entry.id}.")]
        try:
            allowed = self._authorize(found)
        except Unavailable as held:
            words = f"{_sentence(held.message)} See 'toolhall upstream review {found.entry.tool.id.toolkit}'."
            return [*checked, CheckedStage("authorize", "stop", "review", words)], None
        except ToolhallError:
            return [*checked, _denial("authorize", call.caller, found.entry.tool, self._verdict(found))], None
        return [*checked, _permission(allowed)], allowed

    def _verdict(self, found: Found) -> Deny:
        verdict = self._policy.authorize(found.call.caller, found.entry.tool)
        return verdict if isinstance(verdict, Deny) else Deny("")

    def _explain_not_found(self, call: Call, error: ToolhallError) -> CheckedStage:
        """Say what the caller itself is not told: whether there is such a tool, and why it does not see it."""
        entry = self._registry.snapshot.of_kind(call.kind).find(call.tool)
        if entry is not None:
            verdict = self._policy.authorize(call.caller, entry.tool)
            if isinstance(verdict, Deny):
                return _denial("find", call.caller, entry.tool, verdict)
        inactive = self._registry.inactive.find(call.tool)
        if isinstance(error, Retired) or (inactive is not None and inactive.state == RETIRED):
            words = error.message if isinstance(error, Retired) else "it was retired"
            return CheckedStage("find", "stop", "sunset", f"Nobody can call it any more: {words}.")
        if inactive is not None:
            fix = "Its upstream does not offer it now" if inactive.state == "withheld" else "Activate it first"
            words = f"{inactive.tool.id} is {inactive.state}, so nobody can call it. {fix}."
            return CheckedStage("find", "stop", "state", clean_text(words))
        return CheckedStage("find", "stop", None, f"There is no {call.kind} {clean_text(call.tool[:128])!r} here.")

    def _limit(self, allowed: Allowed) -> CheckedStage:
        caller = allowed.call.caller
        if caller.proof == "none" and not caller.local:
            return CheckedStage(
                "limit", "unknown", "limits", "Callers without a credential are counted by address, which is not known."
            )
        wait = self._stages.limit.wait_for(caller, allowed.entry)
        if wait > 0:
            words = f"This process has no room for it now: try again in {wait:.1f} seconds, or raise the limits."
            return CheckedStage("limit", "stop", "limits", words)
        return CheckedStage("limit", "pass", None, "It is within all limits of this process now.")

    async def _guards(self, allowed: Allowed, arguments: JsonObject | None) -> list[CheckedStage]:
        """Validate, verify and equip."""
        if arguments is None:
            words = "Its arguments are checked against the schema when the call is made."
            checked = [CheckedStage("validate", "unknown", None, words), self._verify_any(allowed)]
            return [*checked, self._equip(allowed)] if checked[-1].state == "pass" else checked
        try:
            valid = self._stages.validate(Admitted(allowed.call, allowed.entry, allowed.verdict))
            if not isinstance(valid, Valid):
                valid = await valid
        except BadArguments as error:
            words = "The arguments do not match the tool's schema."
            return [CheckedStage("validate", "stop", "schema", words, tuple(error.problems))]
        except ToolhallError as error:
            return [CheckedStage("validate", "stop", None, _sentence(error.message))]
        checked = [CheckedStage("validate", "pass", None, "The arguments match the tool's schema.")]
        checked.append(await self._verify(valid))
        return [*checked, self._equip(allowed)] if checked[-1].state == "pass" else checked

    def _verify_any(self, allowed: Allowed) -> CheckedStage:
        """Verify as far as it does not depend on arguments."""
        verdict, caller = allowed.verdict, allowed.call.caller
        if verdict.conditional:
            return self._conditional(allowed)
        if isinstance(verdict, RequireVerification):
            return self._missing(allowed) or CheckedStage("verify", "ask", "level", _asks(verdict, caller))
        return CheckedStage("verify", "pass", None, "No grant has conditions here, and no person is asked.")

    def _conditional(self, allowed: Allowed) -> CheckedStage:
        caller, tool, rules = allowed.call.caller, allowed.entry.tool, self._policy.rules
        permits = rules.conditional_permits(caller, tool) if isinstance(rules, GrantRules) else ()
        words = "It depends on the arguments"
        if permits:
            words += f": {' or '.join(permits[:5])} permits it under conditions"
        else:
            words += ": a rule forbids it under conditions"
        if isinstance(allowed.verdict, RequireVerification):
            words += f"; then it {_ASKS[allowed.verdict.how].format(person=_person(caller))}"
        return CheckedStage("verify", "unknown", permits[0] if permits else None, f"{words}.")

    async def _verify(self, valid: Valid) -> CheckedStage:
        """Decide about the arguments, and whether a person would be asked."""
        verdict: Allow | RequireVerification = valid.verdict
        caller = valid.call.caller
        try:
            if verdict.conditional:
                verdict = self._arguments.authorize_arguments(valid)
            if isinstance(verdict, RequireVerification):
                return await self._person(valid, verdict)
        except Denied as denied:
            words = f"{_sentence(denied.message)} {_grant_fix(caller, valid.entry.tool, denied.by)}"
            return CheckedStage("verify", "stop", denied.by or "grant", words)
        except BadArguments as error:
            words = "The arguments cannot be decided about, or not be shown to a person exactly."
            return CheckedStage("verify", "stop", "schema", words, tuple(error.problems))
        except ToolhallError as error:
            return CheckedStage("verify", "stop", None, _sentence(error.message))
        words = "No person is asked at this level."
        if valid.verdict.conditional:
            words = f"{verdict.by} permits it with these arguments. {words}"
        return CheckedStage("verify", "pass", verdict.by if valid.verdict.conditional else None, words)

    async def _person(self, valid: Valid, verdict: RequireVerification) -> CheckedStage:
        """Say whether a person has approved this exact call, would be asked, or cannot be asked now."""
        missing = self._missing(valid)
        if missing is not None:
            return missing
        caller, verify = valid.call.caller, self._stages.verify
        asks = CheckedStage("verify", "ask", "level", _asks(verdict, caller))
        if verify.approvals is None or (caller.local and verify.approver is not None):
            return asks
        request = approval_request(valid.call, valid.entry, valid.arguments, verdict)
        try:
            approved = await verify.approvals.store.preview(request)
        except CoolingDown as refused:
            return CheckedStage("verify", "stop", "approval", _sentence(TooManyPending(refused).message))
        if not approved:
            return asks
        return CheckedStage("verify", "pass", "approval", "A person has approved this exact call; it uses that up.")

    def _missing(self, state: Allowed | Valid) -> CheckedStage | None:
        """Return why nobody is asked yet: something that the tool requires is missing, or has to be fetched first."""
        equip = self._equip(state)
        return None if equip.state == "pass" else msgspec.structs.replace(equip, stage="verify")

    def _equip(self, state: Allowed | Valid) -> CheckedStage:
        needs = state.entry.requirements
        if needs is None:
            return CheckedStage("equip", "pass", None, "It needs no secrets and no accounts.")
        missing, unfetched = self._stages.equip.missing(state.call.caller, needs)
        if missing:
            return CheckedStage("equip", "stop", "requirements", _sentence("; ".join(missing)))
        if unfetched:
            words = f"It needs an account at {', '.join(unfetched)}, whose token is fetched when the call is made."
            return CheckedStage("equip", "unknown", "requirements", words)
        return CheckedStage("equip", "pass", "requirements", "Everything that the tool requires is there.")


def verdict_of(checked: Sequence[CheckedStage]) -> CallVerdict:
    """Return what the call would do: with valid arguments, if none were given."""
    states = {each.state for each in checked if each.stage not in _NOT_DECISIVE or each.state != "unknown"}
    if "stop" in states:
        return "refused"
    if "unknown" in states:
        return "unknown"
    return "asks" if "ask" in states else "runs"


def _call(
    caller: Caller, tool: str, arguments: JsonObject, size: int, kind: Kind = "tool", uri: str | None = None
) -> Call:
    return Call("", tool, arguments, caller, NULL_LINK, DRY_RUN_DIALECT, size, 0.0, requested_name=uri, kind=kind)


def _not_reached(checked: Sequence[CheckedStage]) -> Iterator[CheckedStage]:
    for stage in CHECKED_STAGES[len(checked) :]:
        yield CheckedStage(stage, "not_reached", None, "The call does not get here.")


def _permission(allowed: Allowed) -> CheckedStage:
    verdict = allowed.verdict
    if verdict.conditional:
        words = "A rule decides by the arguments; verify looks at them."
        return CheckedStage("authorize", "pass", verdict.by or None, words)
    return CheckedStage("authorize", "pass", verdict.by, _BY_WORDS.get(verdict.by, f"{verdict.by} permits it."))


def _denial(stage: CallStage, caller: Caller, tool: Tool, verdict: Deny) -> CheckedStage:
    """Say why the policy denies the call, and what to do."""
    hidden = f"To {caller.id}, {tool.id} does not exist: " if stage == "find" else ""
    if verdict.anonymous:
        words = f"{hidden}level {verdict.level} needs a credential. Make a key with 'toolhall key create'."
        return CheckedStage(stage, "stop", "level", _sentence(words))
    if verdict.scopes:
        words = f"{hidden}{verdict.reason}. Make a key with --scopes {verdict.scopes[0]} or tools:*."
        return CheckedStage(stage, "stop", "scope", _sentence(words))
    if verdict.by is not None:
        words = f"{hidden}{verdict.by} forbids it. {_grant_fix(caller, tool, verdict.by)}"
        return CheckedStage(stage, "stop", verdict.by, _sentence(words))
    if hidden:
        words = f"{hidden}level {verdict.level} needs a grant, and none permits it. {_grant_fix(caller, tool, None)}"
        return CheckedStage(stage, "stop", "level", words)
    return CheckedStage(stage, "stop", "level", _sentence(verdict.reason))


def _grant_fix(caller: Caller, tool: Tool, forbidden_by: str | None) -> str:
    if forbidden_by is not None:
        return f"Remove {forbidden_by}, or make it narrower: a forbid wins over every permit."
    words = map(shlex.quote, (clean_text(caller.id), f"{tool.id.toolkit}.{tool.id.tool}"))
    return f"Add one: toolhall grant add {' '.join(words)}."


def _asks(verdict: RequireVerification, caller: Caller) -> str:
    return f"Level {verdict.level} {_ASKS[verdict.how].format(person=_person(caller))}."


def _person(caller: Caller) -> str:
    return caller.person or caller.id


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
