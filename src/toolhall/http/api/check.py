"""`/api/check` and `/api/access`: what calls would do, for one call and for a matrix of callers and tools.

Both ask a DryRun, which decides by the pipeline's own stages and changes nothing. A caller is known by name only, so
its credential is reconstructed: `identities` returns what is known of it.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple

import msgspec

from toolhall.http.api.base import (
    MANAGEMENT_DIALECT,
    ManagementContext,
    json_response,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import ALL_TOOLS, ANONYMOUS, LOCAL, Caller
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse
from toolhall.model.names import matches_any
from toolhall.model.tool import Kind
from toolhall.pipeline.access_rules import AccessRules, GrantRules, NoRules
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dry_run import CallVerdict, CheckedStage, DryRun, verdict_of
from toolhall.registration.access import NewGrant
from toolhall.registry.snapshot import Entry
from toolhall.stores.access import ApiKey, Grant, caller_of

MAX_PAIRS = 10_000
MAX_PATTERNS = 20
PAGE_SECONDS = 2.0  # many grants make a pair costly; the rest is on the next page
PAIRS_PER_TURN = 20  # then other requests have their turn
DRAFT = "draft"
_DRAFT_ID = "~draft"  # sorts after every id of a grant, so that rules in force are named first
_SOON = 3_600.0
_BEST_FIRST: tuple[CallVerdict, ...] = ("runs", "asks", "unknown", "refused")
_PAIR_VERDICTS = {"runs": "yes", "unknown": "if", "asks": "asks", "refused": "no"}
_NO_CEDAR = "Cedar policies decide here, so grants change nothing, and neither does the draft."
_PATTERN = r"[^,\x00-\x1f\x7f]{1,256}"
_PRINTABLE = r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]+\Z"
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=_PRINTABLE)]


class CheckBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The call to check, without arguments as far as it does not depend on them; `draft` is judged as if it existed."""

    caller: _Name
    tool: Annotated[str, msgspec.Meta(min_length=1, max_length=8_192, pattern=_PRINTABLE)]  # or the URI of a resource
    kind: Kind | None = None
    arguments: dict[str, Any] | None = None
    draft: NewGrant | None = None


_BODY_FIX = 'write {"caller": "ci", "tool": "Kit.tool", "arguments": {...}}, and "draft" with a grant where you need it'


class Identities(NamedTuple):
    """What is known of the caller of a name: its possible identities, and what was assumed.

    `exact`: one of these is the caller, and the best counts. Otherwise they are the weakest and the strongest that it
    could be, and only what both of them may do is certain.
    """

    callers: tuple[Caller, ...]
    exact: bool
    notes: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """The verdict about one caller and tool, with the stages that led to it."""

    verdict: CallVerdict
    stages: Sequence[CheckedStage]


def identities(name: str, keys: Sequence[ApiKey], now: float) -> Identities:
    """Return what is known of a caller: by its keys, as the local caller or nobody, else between two extremes."""
    if name == LOCAL.id:
        return Identities((LOCAL,), exact=True)
    if name == ANONYMOUS.id:
        return Identities((ANONYMOUS,), exact=True)
    own = [key for key in keys if key.name == name]
    valid = [key for key in own if key.revoked_at is None and (key.expires_at is None or key.expires_at > now)]
    if valid:
        distinct = tuple(dict.fromkeys(map(caller_of, valid)))
        note = f"{name} has {len(valid)} keys; what the strongest of them may do is shown."
        return Identities(distinct, exact=True, notes=(note,) if len(valid) > 1 else ())
    if own:
        note = f"Every key of {name} was revoked or has expired, so its requests are refused before any stage."
        return Identities((), exact=True, notes=(note,))
    return _between_extremes(name, now)


def _between_extremes(name: str, now: float) -> Identities:
    """Return the weakest and the strongest caller that could have this name."""
    if ":" in name:
        note = f"{name} has no key: it may be a person with a token, whose scopes and sign-in are known when it comes."
        weak = Caller(name, proof="shared" if name.startswith("oxp:") else "token", person=name, expires_at=now + _SOON)
    else:
        note = f"No key has the name {name}: this is what a key of this name could do, from the weakest to the best."
        weak = Caller(name, proof="shared", person=name)
    strong = Caller(
        name,
        proof=weak.proof if ":" in name else "key",
        person=name,
        scopes=frozenset({ALL_TOOLS}),
        expires_at=now + _SOON,
        authenticated_at=now if ":" in name else None,
        short_lived=":" in name,
    )
    return Identities((weak, strong), exact=False, notes=(note,))


def combined(known: Identities, verdicts: Sequence[Verdict]) -> Verdict:
    """Return the best of the verdicts about what the caller is; of the extremes, what holds for both."""
    if not verdicts:
        words = known.notes[0] if known.notes else "Nobody is this caller."
        return Verdict("refused", [CheckedStage("find", "stop", "key", words)])
    best = min(verdicts, key=lambda each: _BEST_FIRST.index(each.verdict))
    if known.exact or all(each.verdict == best.verdict for each in verdicts):
        return best
    weak = verdicts[0]
    return Verdict("unknown", [_either(*pair) for pair in zip(weak.stages, best.stages, strict=False)])


def _either(weak: CheckedStage, best: CheckedStage) -> CheckedStage:
    if weak.state == best.state:
        return best
    words = f"It depends on the credential. With the strongest: {best.words}"
    if weak.state == "stop":
        words += f" With the weakest: {weak.words}"
    return CheckedStage(best.stage, "unknown", weak.rule if weak.state == "stop" else best.rule, words)


class CheckApi:
    """`/api/check` and `/api/access`, for administrators and observers; nothing of it counts as a call."""

    def __init__(self, context: ManagementContext, validator: RequestValidator) -> None:
        self._context = context
        self._dispatcher = context.dispatcher
        self._keys, self._grants = context.access.keys, context.access.grants
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes."""
        return {"/api/check": {"POST": self.check}, "/api/access": {"GET": self.access}}

    async def check(self, request: HttpRequest) -> None:
        """`POST /api/check`."""
        await respond(request, self._check(request))

    async def access(self, request: HttpRequest) -> None:
        """`GET /api/access`."""
        await respond(request, self._access(request))

    async def _check(self, request: HttpRequest) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        self._context.require_observer(request.caller)  # first: nobody else learns even what a valid request is
        try:
            wanted = msgspec.convert(body, CheckBody)
        except msgspec.ValidationError as error:
            raise Malformed(f"{str(error)[:160]}; {_BODY_FIX}") from None

        async def apply() -> JsonObject:
            return await self._answer(wanted, request.caller.id)

        operation = AdminOperation(
            f"check {wanted.caller} {wanted.tool[:256]}", MANAGEMENT_DIALECT, body, personal=True
        )
        return json_response(await self._dispatcher.admin(operation, request.caller, apply))

    async def _answer(self, wanted: CheckBody, by: str) -> JsonObject:
        rules, notes = self._rules(wanted.draft, by)
        dry_run = self._dry_run(rules)
        known = identities(wanted.caller, self._keys.all, self._context.clock())
        verdicts = []
        for caller in known.callers:
            stages = await dry_run.check(caller, wanted.tool, wanted.arguments, wanted.kind)
            verdicts.append(Verdict(verdict_of(stages), stages))
        found = combined(known, verdicts)
        return {
            "caller": wanted.caller,
            "tool": wanted.tool,
            "verdict": found.verdict,
            "stages": [_stage_json(each) for each in found.stages],
            "notes": [*known.notes, *notes],
        }

    def _rules(self, draft: NewGrant | None, by: str) -> tuple[AccessRules, tuple[str, ...]]:
        """Return a copy of the rules in force, or of what they would be with the draft; and what else to say."""
        drafts = () if draft is None else (self._grants.draft(draft, by, _DRAFT_ID),)
        rules = self._dispatcher.policy.rules
        if isinstance(rules, GrantRules):
            return rules.with_grants(drafts), ()
        if isinstance(rules, NoRules):
            return GrantRules(drafts), ()
        return rules, (_NO_CEDAR,) if drafts else ()

    def _dry_run(self, rules: AccessRules) -> DryRun:
        dispatcher = self._dispatcher
        return DryRun(dispatcher.stages, dispatcher.registry, dispatcher.policy.with_rules(rules))

    async def _access(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        parameters = query_parameters(request, ("callers", "tools", "cursor"))
        callers = _matching(_patterns(parameters.get("callers")), self._known_callers())
        tools = self._matching_tools(_patterns(parameters.get("tools")))
        rules, _ = self._rules(None, request.caller.id)
        matrix = AccessMatrix(self._dry_run(rules), self._grants.all, callers, tools)
        known = {name: identities(name, self._keys.all, self._context.clock()) for name in callers}
        return json_response(await matrix.page(known, _decode_cursor(parameters.get("cursor", ""))))

    def _known_callers(self) -> list[str]:
        """Return the names of keys that work, and of callers without one that may be allowed."""
        now = self._context.clock()
        keys = {key.name for key in self._keys.all if key.revoked_at is None and (key.expires_at or now + 1) > now}
        return sorted({*keys, LOCAL.id, ANONYMOUS.id})

    def _matching_tools(self, patterns: Sequence[str]) -> list[Entry]:
        """Return the tools, resources and prompts that a call without a version reaches, by id."""
        snapshot = self._dispatcher.registry.snapshot
        listed = (*snapshot.listed, *snapshot.resources.listed, *snapshot.prompts.listed)
        entries = [each for each in listed if matches_any(patterns, each.id)]
        return sorted(entries, key=lambda each: each.id)


class AccessMatrix:
    """Pages of verdicts for pairs of callers and tools; a cursor names the last pair of the page before."""

    def __init__(
        self, dry_run: DryRun, grants: Sequence[Grant], callers: Sequence[str], tools: Sequence[Entry]
    ) -> None:
        self._dry_run = dry_run
        self._grants = {grant.id: grant for grant in grants}
        self._callers = callers
        self._tools = tools

    async def page(self, known: dict[str, Identities], after: tuple[str, str]) -> JsonObject:
        """Return one page; it ends early if its pairs take long to decide."""
        pairs: list[JsonObject] = []
        began = time.monotonic()
        last = after
        for caller, entry in self._pairs(after):
            if len(pairs) == MAX_PAIRS or (pairs and time.monotonic() - began > PAGE_SECONDS):
                return {"pairs": pairs, "nextCursor": _encode_cursor(last)}
            pairs.append(self._pair(known[caller], caller, entry))
            last = caller, entry.id
            if len(pairs) % PAIRS_PER_TURN == 0:
                await asyncio.sleep(0)
        return {"pairs": pairs}

    def _pairs(self, after: tuple[str, str]) -> Iterator[tuple[str, Entry]]:
        for caller in self._callers:
            if caller >= after[0]:
                yield from ((caller, each) for each in self._tools if caller > after[0] or each.id > after[1])

    def _pair(self, known: Identities, caller: str, entry: Entry) -> JsonObject:
        """Decide as the check does without arguments, but for limits."""
        verdicts = []
        for identity in known.callers:
            stages = self._dry_run.access(identity, entry.id)
            verdicts.append(Verdict(verdict_of(stages), stages))
        found = combined(known, verdicts)
        decisive = _decisive(found.stages)
        grant = self._grants.get(decisive.rule or "")
        conditions = grant.conditions if grant is not None and found.verdict == "unknown" else ()
        return {
            "caller": caller,
            "tool": entry.id,
            "toolkit": entry.tool.id.toolkit,
            "verdict": _PAIR_VERDICTS[found.verdict],
            "rule": decisive.rule,
            "words": decisive.words,
            "conditions": [{"path": each.path, "oneOf": list(each.one_of)} for each in conditions],
        }


def _decisive(stages: Sequence[CheckedStage]) -> CheckedStage:
    """Return the stage that decides: the first that does not pass, else the one that says what permits the call."""
    undecided = next((each for each in stages if each.state in ("stop", "unknown", "ask")), None)
    return undecided or next(each for each in stages if each.stage == "authorize")


def _stage_json(stage: CheckedStage) -> JsonObject:
    problems = {"problems": [{"path": each.path, "message": each.reason} for each in stage.problems]}
    rule = DRAFT if stage.rule == _DRAFT_ID else stage.rule
    return {
        "stage": stage.stage,
        "state": stage.state,
        "rule": rule,
        "words": stage.words.replace(_DRAFT_ID, "the draft"),
        **(problems if stage.problems else {}),
    }


def _patterns(text: str | None) -> tuple[str, ...]:
    """Return the globs of a parameter, which commas separate; everything without one."""
    if text is None:
        return ("*",)
    patterns = tuple(text.split(","))
    if len(patterns) > MAX_PATTERNS or not all(re.fullmatch(_PATTERN, each) for each in patterns):
        raise Malformed(f"callers and tools are 1 to {MAX_PATTERNS} patterns, separated by commas, such as ci,ada.*")
    return patterns


def _matching(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names that match, and every name that is written out, so that anybody can be asked about."""
    exact = {each for each in patterns if not any(sign in each for sign in "*?[")}
    return sorted(exact.union(name for name in names if any(fnmatchcase(name, each) for each in patterns)))


def _encode_cursor(pair: tuple[str, str]) -> str:
    return " ".join(pair)  # no tool id contains a space


def _decode_cursor(text: str) -> tuple[str, str]:
    """Return the pair after which the page begins; any text is a place in the order."""
    caller, _, tool = text.rpartition(" ")
    return caller, tool
