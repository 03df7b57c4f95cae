"""The same call in every dialect is the same call: one decision, one effect, one record."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.dialect_clients import DIALECT_CLIENTS, Call, DialectClient, MachineDialect, Outcome, RestDialect
from tests.harness.http_client import Response
from tests.harness.seeds import examples
from tests.properties.callers.calls import any_version, some_version
from tests.properties.callers.desk import RAISED, SHAPES, VERSION, Desk
from tests.properties.callers.house import ADA, BOB, BURST, EVE, FAINT, House
from tests.properties.callers.oracle import NO_CALL, ONLY_CALLS, ROWS, words
from toolhall import Toolkit, tool
from toolhall.model.call_records import AuditRecord
from toolhall.model.json import Json, JsonObject
from toolhall.stores.audit.journal import MemoryJournal

# Some texts name the call or a time, which differ from call to call.
VARYING = re.compile(r"[0-9a-f]{12}-\d+|\d+\.\d seconds")
WITH_VERSIONS = [way for way in DIALECT_CLIENTS if way is not MachineDialect]  # it has no place for a version


class CallOutcome(NamedTuple):
    """Everything that one call came to."""

    said: Outcome
    entered: list[tuple[str, JsonObject]]
    approvals: list[tuple[str, str, JsonObject]]
    records: list[AuditRecord]
    asked: str
    bytes_in: int

    @property
    def kind(self) -> str:
        """How it ended, by its record."""
        return self.records[0].outcome if self.records else NO_CALL


async def run_calls(way: DialectClient, calls: Sequence[Call]) -> list[CallOutcome]:
    """One call after the other, in a house of its own."""
    desk = Desk()
    house = House(desk)
    endings: list[CallOutcome] = []
    with house.hall as hall:
        assert isinstance(hall.journal, MemoryJournal)
        for call in calls:
            said = way.read(await way.send(house, call), SHAPES.get(call.tool, ""))
            approvals, records = house.person.asked, [each for each in hall.journal.records if not is_intent(each)]
            endings.append(CallOutcome(said, desk.entered, approvals, records, way.asked(call), way.sent))
            desk.entered, house.person.asked = [], []
            hall.journal.records.clear()
    return endings


def assert_same_in_every_dialect(
    calls: Sequence[Call], ways: Sequence[Callable[[], DialectClient]] = DIALECT_CLIENTS
) -> list[str]:
    """Make the calls in every dialect and compare what each came to; how they ended."""
    told = {way.dialect: asyncio.run(run_calls(way, calls)) for way in (make() for make in ways)}
    kinds: list[str] = []
    for number, call in enumerate(calls):
        endings = {dialect: each[number] for dialect, each in told.items()}
        kinds.append(assert_same_decision(endings))
        assert_same_effect(endings)
        if kinds[-1] == NO_CALL:  # it counts only where it was a call, so here and from here on limits may differ
            break
        assert_same_record(call, endings)
        assert_same_answer(kinds[-1], endings)
    return kinds


def assert_same_decision(endings: dict[str, CallOutcome]) -> str:
    """Ran, refused why, failed how."""
    kinds = {dialect: ending.kind for dialect, ending in endings.items()}
    if NO_CALL in kinds.values():
        assert {dialect for dialect, kind in kinds.items() if kind != NO_CALL} == ONLY_CALLS & kinds.keys(), kinds
        assert set(kinds.values()) <= {NO_CALL, "Malformed", "Limited"}, kinds
        return NO_CALL
    assert len(set(kinds.values())) == 1, kinds
    return kinds.popitem()[1]


def assert_same_effect(endings: dict[str, CallOutcome]) -> None:
    """The tool was entered as often, with equal arguments, and a person was asked the same."""
    effects = {dialect: exact([ending.entered, ending.approvals]) for dialect, ending in endings.items()}
    assert len(set(effects.values())) == 1, effects


def assert_same_record(call: Call, endings: dict[str, CallOutcome]) -> None:
    """At most one, equal but for its id, time, duration, the dialect's name and the size of the dialect's message."""
    for dialect, ending in endings.items():
        for record in ending.records:
            assert (record.dialect, record.bytes_in) == (dialect, ending.bytes_in)
            # What was found, or is hidden, has one name in all records; what is not there is as it was asked for.
            found = f"{call.toolkit}.{call.tool}@{VERSION}"
            lost = ending.kind in ("NotFound", "Limited") and record.definition_sha256 is None
            unknown = (lost and record.verdict is None) or call.caller is None
            if ending.kind == "Malformed":  # as far as it could be read
                assert record.tool in ("", ending.asked, found, found.partition("@")[0]), (dialect, record)
            else:
                assert record.tool == (ending.asked if unknown else found), (dialect, record)
    records = {
        dialect: [without_varying_fields(record) for record in ending.records] for dialect, ending in endings.items()
    }
    first = next(iter(records.values()))
    assert len(first) <= 1
    assert all(each == first for each in records.values()), records


def is_intent(record: AuditRecord) -> bool:
    """What is written before a call of a higher level runs."""
    return record.phase == "intent"


def without_varying_fields(record: AuditRecord) -> AuditRecord:
    times = {"time": 0.0, "duration_us": 0, "stages_us": None}  # the stage times of some calls are taken
    return msgspec.structs.replace(record, call="", dialect="", tool="", bytes_in=0, **times)


def assert_same_answer(kind: str, endings: dict[str, CallOutcome]) -> None:
    """Each dialect has its own word for it, and all say one value or one text."""
    for dialect, ending in endings.items():
        assert ending.said.word in words(kind, dialect), (kind, dialect, ending.said)
    if kind in (
        NO_CALL,
        "Malformed",
        "NotFound",
    ):  # these texts speak of the message itself, or of the name as it was asked for
        return
    answers = {dialect: VARYING.sub("...", exact(ending.said.what)) for dialect, ending in endings.items()}
    assert len(set(answers.values())) == 1, answers


def exact(value: Json) -> str:
    """JSON tells 1 from 1.0 and from true, where Python does not."""
    return json.dumps(value, sort_keys=True)


@settings(max_examples=examples(60))
@given(st.lists(any_version, min_size=1, max_size=BURST + 2))
def test_calls_without_a_version_have_the_same_outcome_in_every_dialect(calls: list[Call]) -> None:
    assert_same_in_every_dialect(calls)


@settings(max_examples=examples(40))
@given(st.lists(some_version, min_size=1, max_size=2))
def test_calls_with_a_version_have_the_same_outcome_in_every_dialect(calls: list[Call]) -> None:
    assert_same_in_every_dialect(calls, WITH_VERSIONS)


TEXT: JsonObject = {"text": "hej"}
ENDINGS: dict[str, tuple[str, Call]] = {
    "reads": ("ok", Call(ADA, "Desk", "read", TEXT)),
    "reads in a thread": ("ok", Call(EVE, "Desk", "read_in_thread", TEXT)),
    "writes": ("ok", Call(ADA, "Desk", "write", {"data": {"deep": [1, "é", None]}})),
    "a person says yes": ("ok", Call(ADA, "Desk", "sign", TEXT)),
    "sees what is hidden": ("ok", Call(BOB, "Desk", "peek", TEXT)),
    "returns nothing": ("ok", Call(ADA, "Desk", "shred", {"number": 1})),
    "returns null": ("ok", Call(ADA, "Desk", "find", {"text": ""})),
    "returns what it was given": ("ok", Call(ADA, "Desk", "echo", {"data": {"result": 1}})),
    "promises nothing": ("ok", Call(ADA, "Desk", "free", {"data": [1]})),
    "returns blocks": ("ok", Call(ADA, "Desk", "pages", TEXT)),
    "returns blocks and a value": ("ok", Call(ADA, "Desk", "annotated", TEXT)),
    "sends notices": ("ok", Call(ADA, "Desk", "report", {"data": [1]})),
    "returns an error": ("tool_error", Call(ADA, "Desk", "decline", TEXT)),
    "arguments are no object": ("Malformed", Call(ADA, "Desk", "read", ["hej"])),
    "integer too long": (NO_CALL, Call(ADA, "Desk", "echo", {"data": 10**20})),
    "unknown tool": ("NotFound", Call(ADA, "Desk", "nowhere", {})),
    "unknown toolkit": ("NotFound", Call(ADA, "Cellar", "read", TEXT)),
    "hidden tool": ("NotFound", Call(EVE, "Desk", "peek", TEXT)),
    "a caller that proved nothing": ("Unauthenticated", Call(None, "Desk", "read", TEXT)),
    "argument missing": ("BadArguments", Call(ADA, "Desk", "read", {})),
    "argument too many": ("BadArguments", Call(ADA, "Desk", "read", TEXT | {"more": 1})),
    "not permitted": ("Denied", Call(BOB, "Desk", "write", {"data": 1})),
    "a person says no": ("NeedsVerification", Call(EVE, "Desk", "sign", TEXT)),
    "asks a person": ("Unsupported", Call(ADA, "Desk", "ask", TEXT)),
    "needs somebody to ask": ("Unsupported", Call(ADA, "Desk", "insist", TEXT)),
    "raises": ("Crashed", Call(ADA, "Desk", "stumble", TEXT)),
    "sends a notice that cannot be written": ("Crashed", Call(ADA, "Desk", "mumble", TEXT)),
    "breaks its output schema": ("BadOutput", Call(ADA, "Desk", "misprint", TEXT)),
    "returns what cannot be written": ("BadOutput", Call(ADA, "Desk", "scribble", TEXT)),
    "breaks the hall": ("Broken", Call(ADA, "Desk", "sign", {"text": FAINT})),
    "takes too long": ("TimedOut", Call(ADA, "Desk", "dawdle", TEXT)),
    **{f"raises {kind}": (kind, Call(ADA, "Desk", "refuse", {"kind": kind})) for kind in RAISED},
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_call_outcome_of_each_kind_is_the_same_in_every_dialect(ending: str) -> None:
    kind, call = ENDINGS[ending]
    assert assert_same_in_every_dialect([call]) == [kind]


def test_call_outcomes_under_test_cover_every_kind() -> None:
    assert {kind for kind, _ in ENDINGS.values()} == ROWS.keys()


@pytest.mark.parametrize("version", [VERSION, "9.9.9"])
def test_call_of_a_known_or_unknown_version_has_the_same_outcome_in_every_dialect(version: str) -> None:
    kind = "ok" if version == VERSION else "NotFound"
    assert assert_same_in_every_dialect([Call(ADA, "Desk", "read", TEXT, version)], WITH_VERSIONS) == [kind]


def test_rate_limit_refuses_the_same_calls_in_every_dialect() -> None:
    """Bad arguments and what was never permitted count too, and each caller has its own allowance."""
    read, write = (Call(BOB, "Desk", name, TEXT) for name in ("read", "write"))
    calls = [write, *[read] * (BURST - 2), read._replace(arguments={}), read, write, read._replace(caller=ADA)]
    kinds = ["Denied", *["ok"] * (BURST - 2), "BadArguments", "Limited", "Limited", "ok"]
    assert assert_same_in_every_dialect(calls) == kinds


def test_tool_raising_an_internal_hall_error_has_the_same_outcome_in_every_dialect() -> None:
    """Whatever it is taken for, every dialect takes it alike and says it in the same words."""
    assert_same_in_every_dialect([Call(ADA, "Desk", "refuse", {"kind": "Broken"})])


def test_call_with_null_arguments_has_the_same_outcome_in_every_dialect() -> None:
    """Read alike wherever there is a place for it; the body of a REST call is the arguments themselves."""
    assert_same_in_every_dialect(
        [Call(ADA, "Desk", "read", None)], [way for way in DIALECT_CLIENTS if way is not RestDialect]
    )


class DeskWithoutHiddenTool(Toolkit, name="Desk", version=VERSION):
    """The desk as Eve sees it."""

    @tool(effect="reads")
    async def read(self, text: str) -> str:
        return text


class DeskWithHiddenTool(DeskWithoutHiddenTool, name="Desk", version=VERSION):
    """The desk as it is."""

    @tool(effect="reads", tags=["hidden"])
    async def peek(self, text: str) -> str:
        return text


@pytest.mark.parametrize("way", DIALECT_CLIENTS, ids=lambda way: way().dialect)
@pytest.mark.parametrize("caller", [EVE, None])
async def test_hidden_tool_reply_is_identical_to_that_of_an_unknown_tool(
    way: Callable[[], DialectClient], caller: str | None
) -> None:
    """Not a byte tells a hidden tool from none: no version, no other code."""
    call = Call(caller, "Desk", "peek", TEXT)
    replies = [await reply_of(way(), call, desk) for desk in (DeskWithHiddenTool(), DeskWithoutHiddenTool())]
    assert replies[0] == replies[1]


async def reply_of(way: DialectClient, call: Call, desk: Toolkit) -> tuple[int, JsonObject]:
    house = House(desk)
    with house.hall:
        reply: Response = await way.send(house, call)
    message = json.loads(reply.body)
    message.get("header", {}).clear()  # Machine Context: ids and times, new for each reply
    return reply.status, message
