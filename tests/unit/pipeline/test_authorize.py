"""Who may call what in the `local` profile."""

import pytest

from tests.unit.parts import call_of, entry_named, tool_named
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import Denied
from toolhall.model.verdict import Allow, Verify
from toolhall.pipeline.authorize import Authorize, LocalPolicy
from toolhall.pipeline.states import Found

STRANGER = Caller("stranger")


@pytest.mark.parametrize("level", [None, *range(8)])
def test_the_local_caller_may_call_up_to_level_seven(level: int | None) -> None:
    assert LocalPolicy().judge(LOCAL, tool_named("pick", level=level)) == Allow("profile:local")


@pytest.mark.parametrize("level", [8, 9, 10])
def test_from_level_eight_a_person_must_agree(level: int) -> None:
    verdict = LocalPolicy().judge(LOCAL, tool_named("pick", level=level))
    assert verdict == Verify("profile:local", f"level {level} needs a person's yes")


@pytest.mark.parametrize("level", [0, 1, 10])
def test_nobody_else_may_call_or_see_anything(level: int) -> None:
    policy = LocalPolicy()
    tool = tool_named("pick", level=level)
    assert not policy.sees(STRANGER, tool)
    assert not policy.sees_everything(STRANGER)
    with pytest.raises(Denied, match="only callers on this machine may call tools here"):
        Authorize(policy)(Found(call_of(caller=STRANGER), entry_named(level=level)))


def test_the_local_caller_sees_everything() -> None:
    assert LocalPolicy().sees(LOCAL, tool_named("pick"))
    assert LocalPolicy().sees_everything(LOCAL)


def test_the_verdict_travels_on() -> None:
    allowed = Authorize(LocalPolicy())(Found(call_of(), entry_named(level=9)))
    assert isinstance(allowed.verdict, Verify)
    assert allowed.entry.tool.level == 9


def test_only_the_local_caller_manages() -> None:
    assert LocalPolicy().manages(LOCAL)
    assert not LocalPolicy().manages(STRANGER)
