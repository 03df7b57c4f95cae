"""Exactly one record for every call, however it ends; digests, never values."""

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.builders import Clock, call_of, entry_named
from toolhall.app import Toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.config import Config
from toolhall.contracts.digest import compute_digests
from toolhall.model.call_records import AuditRecord, RecordSource
from toolhall.model.caller import LOCAL, Allow, Caller
from toolhall.model.content import Reply, Text
from toolhall.model.errors import Denied, ToolFailed, Unauthenticated, Unavailable
from toolhall.model.messages import CallTool, InputRequiredSignal, Roots
from toolhall.model.secret import Secret
from toolhall.pipeline.audit import Audit, CallEnding
from toolhall.pipeline.states import Allowed, Equipped, Found
from toolhall.redaction.redactor import Redactor
from toolhall.stores.audit.journal import MemoryJournal

CANARY = "hunter2"


@tool
async def succeed(text: str = "") -> str:
    return f"{CANARY} {text}"


@tool
async def say_error() -> Reply:
    return Reply((Text(CANARY),), is_error=True)


@tool
async def fail() -> None:
    raise ToolFailed(CANARY)


@tool
async def crash() -> None:
    raise ValueError(CANARY)


@tool
async def unavailable() -> None:
    raise Unavailable(CANARY)


@tool(timeout=0.01)
async def hang() -> None:
    await asyncio.Event().wait()


@tool
async def wait() -> None:
    await asyncio.Event().wait()


@tool
async def ask(ctx: Context) -> None:
    raise InputRequiredSignal({"where": Roots()})


@tool
async def lie() -> int:
    return CANARY  # type: ignore[return-value]


@tool(level=9)
async def risky() -> None: ...


@tool
async def change(words: list[str]) -> int:
    words.append(CANARY)
    return len(words)


@tool(level=5)
async def sell(words: list[str]) -> str:
    words.clear()
    return "sold"


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    tools = (succeed, say_error, fail, crash, unavailable, hang, wait, ask, lie, risky, change, sell)
    with Toolhall(*tools, config=Config(calls_per_second=0.001, call_burst=100)) as hall:
        yield hall


def records(hall: Toolhall) -> list[AuditRecord]:
    assert isinstance(hall.journal, MemoryJournal)
    return list(hall.journal.records)


async def answer(hall: Toolhall, name: str, caller: Caller = LOCAL, **arguments: Any) -> Any:
    return await hall.dispatcher.answer(CallTool(name, arguments, "test", 42), caller)


WAYS_TO_END = [
    ("succeed", "ok"),
    ("say_error", "tool_error"),
    ("fail", "ToolFailed"),
    ("crash", "Crashed"),
    ("unavailable", "Unavailable"),
    ("hang", "TimedOut"),
    ("ask", "asked"),
    ("lie", "BadOutput"),
    ("risky", "NeedsVerification"),
    ("missing", "NotFound"),
]


@pytest.mark.parametrize(("name", "outcome"), WAYS_TO_END)
async def test_audit_record_of_a_call_names_its_outcome_and_contains_no_values(
    hall: Toolhall, name: str, outcome: str
) -> None:
    await answer(hall, name)
    (record,) = records(hall)
    assert record.outcome == outcome
    assert record.tool == ("missing" if name == "missing" else f"test_audit.{name}@0.1.0")
    assert (record.caller, record.dialect, record.bytes_in) == ("local", "test", 42)
    assert CANARY not in str(record)


async def test_audit_records_a_call_with_invalid_arguments_as_bad_arguments(hall: Toolhall) -> None:
    await answer(hall, "succeed", text=7)
    (record,) = records(hall)
    assert (record.outcome, record.tool) == ("BadArguments", "test_audit.succeed@0.1.0")


async def test_audit_records_a_rate_limited_call_as_limited(hall: Toolhall) -> None:
    for _ in range(101):
        await answer(hall, "succeed")
    assert [record.outcome for record in records(hall)] == ["ok"] * 100 + ["Limited"]


async def test_audit_records_a_call_of_an_unauthenticated_caller_as_unauthenticated(hall: Toolhall) -> None:
    await answer(hall, "succeed", Caller("stranger"))
    (record,) = records(hall)
    assert (record.caller, record.outcome, record.grant) == ("stranger", "Unauthenticated", None)


async def test_audit_records_a_cancelled_call_as_cancelled(hall: Toolhall) -> None:
    task = asyncio.ensure_future(answer(hall, "wait"))
    await asyncio.sleep(0)
    assert records(hall) == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (record,) = records(hall)
    assert record.outcome == "Cancelled"


async def test_audit_record_names_the_grant_the_time_and_the_result_size(hall: Toolhall) -> None:
    await answer(hall, "succeed", text="x")
    (record,) = records(hall)
    assert record.grant == "profile:local"
    assert record.time > 1.7e9
    assert record.duration_us >= 0
    assert record.bytes_out == len(f'"{CANARY} x"')
    assert record.call.endswith("-1")


async def test_audit_record_contains_arguments_only_as_a_sha256_digest(hall: Toolhall) -> None:
    await answer(hall, "succeed", text=CANARY)
    (record,) = records(hall)
    assert record.arguments_sha256 == hashlib.sha256(b'{"text":"hunter2"}').hexdigest()
    assert CANARY not in str(record)


def test_audit_record_gives_the_duration_in_microseconds() -> None:
    journal, timer = MemoryJournal(), Clock(1_000.25)
    Audit(journal, Clock(7.0), timer).write(call_of(), CallEnding.of("ok"))
    (record,) = journal.records
    assert (record.time, record.duration_us, record.bytes_out) == (7.0, 250_000, 0)


@pytest.mark.parametrize("name", ["fail", "missing", "ask"])
async def test_audit_record_of_a_call_without_result_has_zero_bytes_out(hall: Toolhall, name: str) -> None:
    await answer(hall, name)
    (record,) = records(hall)
    assert record.bytes_out == 0


async def test_audit_record_of_an_unknown_tool_truncates_a_long_name(hall: Toolhall) -> None:
    await answer(hall, "x" * 1_000)
    (record,) = records(hall)
    assert len(record.tool) == 128


async def test_audit_records_have_unique_call_ids(hall: Toolhall) -> None:
    for _ in range(50):
        await answer(hall, "succeed")
    assert len({record.call for record in records(hall)}) == 50


async def test_audit_digest_of_arguments_that_the_tool_mutated_is_of_the_original_arguments(hall: Toolhall) -> None:
    """A tool may change what it was given; the record says what that was."""
    await answer(hall, "change", words=["a"])
    (record,) = records(hall)
    assert record.arguments_sha256 == hashlib.sha256(b'{"words":["a"]}').hexdigest()


async def test_audit_writes_an_intent_record_before_a_call_of_level_4_or_higher(hall: Toolhall) -> None:
    await answer(hall, "sell", words=["a"])
    intent, ended = records(hall)
    assert (intent.outcome, intent.phase, ended.outcome, ended.phase) == ("intent", "intent", "ok", None)
    assert intent.call == ended.call
    assert intent.arguments_sha256 == ended.arguments_sha256 == hashlib.sha256(b'{"words":["a"]}').hexdigest()
    assert (intent.level, intent.verdict, intent.grant) == (5, "allow", "profile:local")


async def test_call_whose_intent_record_cannot_be_written_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(_: RecordSource, **_sign: bool) -> None:
        raise Unavailable("the audit cannot be written")

    happened: list[str] = []

    @tool(level=4)
    async def act() -> None:
        happened.append("something")

    with Toolhall(act) as hall:
        monkeypatch.setattr(hall.journal, "commit", full)
        told = await answer(hall, "act")
    assert isinstance(told, Unavailable)
    assert happened == []
    assert [record.outcome for record in records(hall)] == ["Unavailable"]


async def test_audit_record_names_the_definition_digest_the_level_and_the_verdict(hall: Toolhall) -> None:
    await answer(hall, "succeed")
    await answer(hall, "risky")
    low, high = records(hall)
    entry = hall.registry.snapshot.find("succeed")
    assert entry is not None
    assert low.definition_sha256 == entry.definition_sha256
    found = compute_digests(entry.tool)
    assert low.definition_sha256 == hashlib.sha256(f"{found.shown}\n{found.contract}\n".encode()).hexdigest()
    assert high.definition_sha256 != low.definition_sha256
    assert (low.level, low.verdict, high.level, high.verdict) == (1, "allow", 9, "verify")


@pytest.mark.parametrize("reached", ["found", "allowed", "equipped"])
def test_audit_record_of_a_denied_call_names_the_reason_and_the_rule(reached: str) -> None:
    """Once a tool runs, whatever it raises is its own word, and no verdict."""
    journal, entry, call = MemoryJournal(), entry_named(), call_of()
    allow = Allow("g_1", 5)
    ways: dict[str, Found | Allowed | Equipped] = {
        "found": Found(call, entry),
        "allowed": Allowed(call, entry, allow),
        "equipped": Equipped(call, entry, allow, {}, approval="a_1"),
    }
    Audit(journal, Clock(), Clock()).write(
        call, CallEnding.of("Denied", ways[reached], Denied("not you", by="g_2", level=5))
    )
    (record,) = journal.records
    ran = reached == "equipped"
    assert (record.verdict, record.grant, record.level) == (("allow", "g_1", 5) if ran else ("deny", "g_2", 5))
    assert (record.reason, record.approval) == ((None, "a_1") if ran else ("not you", None))
    assert record.tool == entry.id


def test_audit_record_of_an_unauthenticated_call_has_the_verdict_deny() -> None:
    journal, call = MemoryJournal(), call_of()
    Audit(journal, Clock(), Clock()).write(call, CallEnding.of("Unauthenticated", None, Unauthenticated()))
    (record,) = journal.records
    assert (record.verdict, record.grant, record.tool) == ("deny", None, call.tool)


def test_audit_record_names_the_caller_the_person_and_whom_it_acts_for() -> None:
    journal = MemoryJournal()
    callers = [Caller("ci", person="ada", acting_for="bob"), Caller("ada", person="ada"), Caller("eve")]
    for caller in callers:
        Audit(journal, Clock(), Clock()).write(call_of(caller=caller), CallEnding.of("ok"))
    named = [(record.caller, record.person, record.acting_for) for record in journal.records]
    assert named == [("ci", "ada", "bob"), ("ada", None, None), ("eve", None, None)]


def test_audit_record_counts_what_the_redactor_of_the_call_removed() -> None:
    journal, call, redactor = MemoryJournal(), call_of(), Redactor((Secret("hunter2-hunter2"),))
    redactor.redact_text("hunter2-hunter2 and hunter2-hunter2")
    equipped = Equipped(call, entry_named(), Allow("test"), {}, redactor=redactor)
    Audit(journal, Clock(), Clock()).write(call, CallEnding.of("ok", equipped))
    (record,) = journal.records
    assert record.redactions == redactor.count > 0


@pytest.mark.parametrize("size", [10, 5_000])
def test_audit_digest_of_arguments_is_computed_alike_for_small_and_large_arguments(size: int) -> None:
    journal = MemoryJournal()
    Audit(journal, Clock(), Clock()).write(call_of(arguments={"a": "x" * size}), CallEnding.of("ok"))
    (record,) = journal.records
    assert record.arguments_sha256 == hashlib.sha256(b'{"a":"%b"}' % (b"x" * size)).hexdigest()


def test_audit_drops_kept_arguments_after_writing_the_record() -> None:
    audit, call = Audit(MemoryJournal(), Clock(), Clock()), call_of()
    audit.keep_arguments(call)
    audit.write(call, CallEnding.of("ok"))
    assert vars(audit)["_arguments"] == {}
