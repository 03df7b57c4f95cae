"""Conditions of grants, and a person's yes to one exact call."""

import msgspec
import pytest

from tests.unit.builders import Clock, call_of, entry_named
from toolhall.model.caller import LOCAL, Allow, Caller
from toolhall.model.caller import RequireVerification as NeedsPerson
from toolhall.model.errors import Denied, Malformed, NeedsRequirement, NeedsVerification
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call
from toolhall.model.requirements import CallerCredentials
from toolhall.model.secret import Secret
from toolhall.model.tool import Tool
from toolhall.pipeline.access_rules import Conditional, Permitted, RuleDecision, Unmatched
from toolhall.pipeline.approvals import ApprovalService
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.states import Valid, Verified
from toolhall.pipeline.verify import Approver, Verify
from toolhall.registry.snapshot import Entry
from toolhall.stores.approvals import MemoryApprovalStore

PERSON = NeedsPerson("profile:local", 9, "approval")
ARGUMENTS = {"amount": 100}
ADA = Caller("ada", proof="key", person="ada")


class FakeApprover:
    """An approver that gives a fixed answer and records its questions."""

    def __init__(self, yes: bool) -> None:
        self.asked: list[tuple[str, JsonObject, int]] = []
        self._yes = yes

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: NeedsPerson) -> bool:
        self.asked.append((tool.name, arguments, verdict.level))
        return self._yes


class GrantedApprovals(ApprovalService):
    """An approval service that has approved every call."""

    def __init__(self) -> None:
        super().__init__(MemoryApprovalStore(Clock()), lambda: "http://hall")
        self.asked: list[tuple[str, JsonObject, str]] = []

    async def verify(self, call: Call, entry: Entry, arguments: JsonObject, verdict: NeedsPerson) -> str:
        self.asked.append((entry.id, arguments, verdict.how))
        return "approval-7"


class SmallAmountRules:
    """Access rules with one grant, for small amounts."""

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:
        return Conditional()

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: JsonObject) -> RuleDecision:
        return Permitted("grant-3") if arguments.get("amount", 1_000) < 50 else Unmatched()


def stage(approver: Approver | None = None, page: GrantedApprovals | None = None) -> Verify:
    return Verify(LevelPolicy(SmallAmountRules(), clock=Clock()), approver, page)


def valid(verdict: Allow | NeedsPerson, arguments: JsonObject = ARGUMENTS, caller: Caller = LOCAL) -> Valid:
    schema = {"type": "object", "properties": {"amount": {"type": "integer", "default": 10}}}
    return Valid(call_of(caller=caller), entry_named(input=schema), verdict, arguments)


def test_verify_allowed_call_asks_no_person() -> None:
    approver = FakeApprover(yes=False)
    assert isinstance(stage(approver)(valid(Allow("grant"))), Verified)
    assert approver.asked == []


async def test_verify_asks_the_person_about_the_tool_the_arguments_and_the_level() -> None:
    approver = FakeApprover(yes=True)
    waiting = stage(approver)(valid(PERSON))
    assert not isinstance(waiting, Verified)
    verified = await waiting
    assert (verified.arguments, verified.approval) == (ARGUMENTS, "terminal")
    assert approver.asked == [("pick", ARGUMENTS, 9)]


async def test_verify_call_that_the_person_declines_raises_needs_verification() -> None:
    waiting = stage(FakeApprover(yes=False))(valid(PERSON))
    assert not isinstance(waiting, Verified)
    with pytest.raises(NeedsVerification, match="level 9 needs a person's yes, and the person asked said no"):
        await waiting


async def test_verify_without_an_approver_raises_needs_verification() -> None:
    waiting = stage()(valid(PERSON))
    assert not isinstance(waiting, Verified)
    with pytest.raises(NeedsVerification, match="level 9 needs a person's yes, and nobody can be asked"):
        await waiting


@pytest.mark.parametrize("how", ["step_up", "approval", "second_person"])
async def test_verify_remote_caller_is_verified_by_the_approval_service(how: str) -> None:
    approver, page = FakeApprover(yes=True), GrantedApprovals()
    waiting = stage(approver, page)(valid(NeedsPerson("grant-1", 9, how), caller=ADA))  # type: ignore[arg-type]
    assert not isinstance(waiting, Verified)
    assert (await waiting).approval == "approval-7"
    assert page.asked == [("Kit.pick@1.0.0", ARGUMENTS, how)]
    assert approver.asked == [], "the terminal belongs to the local caller"


def test_verify_conditional_verdict_is_decided_by_the_arguments() -> None:
    verified = stage()(valid(Allow("", 5, conditional=True), {"amount": 20}, ADA))
    assert isinstance(verified, Verified)
    assert verified.verdict == Allow("grant-3", 5)
    with pytest.raises(Denied, match="with these arguments"):
        stage()(valid(Allow("", 5, conditional=True), {"amount": 60}, ADA))


def test_verify_conditions_are_evaluated_with_schema_defaults() -> None:
    verified = stage()(valid(Allow("", 5, conditional=True), {}, ADA))
    assert isinstance(verified, Verified), "the schema says 10 where nothing was sent"
    assert verified.arguments == {}, "what is sent on is what was sent"


async def test_verify_checks_conditions_before_asking_a_person() -> None:
    page = GrantedApprovals()
    with pytest.raises(Denied):
        stage(page=page)(valid(NeedsPerson("", 9, "approval", conditional=True), {"amount": 60}, ADA))
    assert page.asked == []


async def test_verify_asks_no_person_when_a_requirement_is_missing() -> None:
    approver = FakeApprover(yes=True)
    entry = entry_named(requirements={"secrets": [{"id": "KEY"}]})
    verify = Verify(LevelPolicy(clock=Clock()), approver, check_ready=Equip().check_ready)
    with pytest.raises(NeedsRequirement):
        await verify(Valid(call_of(), entry, PERSON, {}))  # type: ignore[misc]
    assert approver.asked == []


@pytest.mark.parametrize("requirements", [None, {"secrets": [{"id": "KEY"}]}])
async def test_verify_asks_no_person_when_caller_credentials_are_not_accepted(requirements: JsonObject | None) -> None:
    approver = FakeApprover(yes=True)
    verify = Verify(LevelPolicy(clock=Clock()), approver, check_ready=Equip().check_ready)
    call = msgspec.structs.replace(call_of(), caller_credentials=CallerCredentials({"KEY": Secret("sk-brought")}))
    with pytest.raises(Malformed, match="takes no credentials"):
        await verify(Valid(call, entry_named(requirements=requirements), PERSON, {}))  # type: ignore[misc]
    assert approver.asked == []
