"""A person's yes to one exact call."""

import pytest

from tests.unit.parts import call_of, entry_named
from toolhall.model.call import Call
from toolhall.model.errors import NeedsVerification
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.model.verdict import Allow
from toolhall.model.verdict import Verify as NeedsPerson
from toolhall.pipeline.states import Valid, Verified
from toolhall.pipeline.verify import Verify

PERSON = NeedsPerson("profile:local", "level 9 needs a person's yes")
ARGUMENTS = {"amount": 100}


class Person:
    """Says what the test says, and remembers what it was asked."""

    def __init__(self, yes: bool) -> None:
        self.asked: list[tuple[str, JsonObject]] = []
        self._yes = yes

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject) -> bool:
        self.asked.append((tool.name, arguments))
        return self._yes


def valid(verdict: Allow | NeedsPerson) -> Valid:
    return Valid(call_of(), entry_named(), verdict, ARGUMENTS)


def test_an_allowed_call_bothers_nobody() -> None:
    person = Person(yes=False)
    assert isinstance(Verify(person)(valid(Allow("grant"))), Verified)
    assert person.asked == []


async def test_a_person_is_asked_about_this_tool_and_these_arguments() -> None:
    person = Person(yes=True)
    waiting = Verify(person)(valid(PERSON))
    assert not isinstance(waiting, Verified)
    assert (await waiting).arguments == ARGUMENTS
    assert person.asked == [("pick", ARGUMENTS)]


async def test_no_means_no() -> None:
    waiting = Verify(Person(yes=False))(valid(PERSON))
    assert not isinstance(waiting, Verified)
    with pytest.raises(NeedsVerification, match="level 9 needs a person's yes, and the person asked said no"):
        await waiting


async def test_without_a_person_the_answer_is_no() -> None:
    waiting = Verify(None)(valid(PERSON))
    assert not isinstance(waiting, Verified)
    with pytest.raises(NeedsVerification, match="level 9 needs a person's yes, and nobody can be asked"):
        await waiting
