"""A call in a tool server: what is sent, what comes back, and when it is tried again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.unit.execution.remote.fake_transports import (
    NOT_STARTED,
    FakeTransport,
    HoldingTransport,
    lost,
    pools_of,
    replica_info,
)
from tests.unit.parts import Clock, Hearing, call_of, tool_named
from toolhall.authoring.context import PausableDeadline
from toolhall.dialects.hub.call_messages import CallEvent, LogMessage, ProgressMessage, QuestionMessage
from toolhall.dialects.hub.results import NoSuchMethod
from toolhall.execution.client_link import ThrottledLink
from toolhall.execution.deadline import Deadline
from toolhall.execution.remote.remote_runner import RemoteRunner
from toolhall.execution.remote.replica import Replica
from toolhall.execution.remote.replica_transport import ReportHandler, ResponseTooLarge
from toolhall.model.caller import Caller
from toolhall.model.errors import BadArguments, BadOutput, NotFound, Problem, ToolFailed, Unavailable, Unsupported
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import (
    NULL_LINK,
    Answered,
    ClientLink,
    Filled,
    Form,
    InputRequiredSignal,
    LogEvent,
    ProgressEvent,
    Question,
)
from toolhall.model.requirements import AccountToken, ResolvedCredentials
from toolhall.model.secret import Secret
from toolhall.model.tool import Tool

PICK = tool_named("pick")
ADA = Caller("ci", person="ada", proof="key", scopes=frozenset({"b", "a"}), credential=Secret("key-of-ada"))


class House:
    """A runner and a replica at the end of each line."""

    def __init__(self, *lines: FakeTransport, idempotent: tuple[str, ...] = ()) -> None:
        self.clock = Clock()
        self.lines = lines
        self.replicas = [Replica(replica_info(str(number)), line, self.clock) for number, line in enumerate(lines)]
        self.pools = pools_of(self.clock, *self.replicas)
        self.runner = RemoteRunner(self.pools, idempotent, self.clock)

    def first(self, number: int) -> None:
        """Let this one be tried first."""
        for replica in self.replicas:
            replica.running = int(replica is not self.replicas[number])

    async def run(
        self, tool: Tool = PICK, link: Any = None, patience: PausableDeadline | None = None, **more: Any
    ) -> object:
        call = msgspec.structs.replace(call_of(caller=ADA, link=link or Hearing()), **more)
        return await self.runner.run(tool, call, {"colour": "red"}, patience or Deadline(60))


def one_and_other(
    *ends: Json | Exception, idempotent: tuple[str, ...] = ()
) -> tuple[House, FakeTransport, FakeTransport]:
    """Two lines; the first is tried first, and ends so."""
    one, other = FakeTransport(*ends), FakeTransport({"by": "other"})
    house = House(one, other, idempotent=idempotent)
    house.first(0)
    return house, one, other


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_remote_runner_sends_tool_request() -> None:
    line = FakeTransport({"n": 1})
    house = House(line)
    assert await house.run() == {"n": 1}
    (sent,) = line.calls
    assert len(sent.pop("id")) > 8
    assert sent == {
        "type": "tool_request",
        "tool": "Kit",
        "method": "pick",
        "params": {"colour": "red"},
        "metadata": {"version": "1.0.0"},
        "context": {
            "call": "call-1",
            "timeout": 60,
            "caller": {"id": "ci", "person": "ada", "proof": "key", "scopes": ["a", "b"]},
            "can": ["elicitation"],
        },
    }


async def test_remote_runner_sends_declared_credentials_only() -> None:
    equipment = ResolvedCredentials(
        {"KEY": Secret("SK01")}, {"google": AccountToken("google", Secret("ya29"), ("calendar",), 5.0)}, "ada"
    )
    line = FakeTransport()
    house = House(line)
    await house.run(tool_named("pick", requirements={"secrets": [{"id": "KEY"}]}), credentials=equipment)
    await house.run(tool_named("pick", requirements={"user_id": True}), credentials=equipment)
    first, second = (each["context"] for each in line.calls)
    assert first["secrets"] == {"KEY": "SK01"}
    assert first["accounts"] == {"google": {"token": "ya29", "scopes": ["calendar"], "expires_at": 5.0}}
    assert "user_id" not in first
    assert second["user_id"] == "ada"
    assert b"key-of-ada" not in msgspec.json.encode(line.calls)


async def test_remote_runner_sends_each_calls_own_caller() -> None:
    house = House(line := FakeTransport())
    eve = Caller("eve", proof="token", scopes=frozenset({"c"}), acting_for="bob")
    for caller in (ADA, ADA, eve, ADA):
        await house.run(caller=caller)
    assert [each["context"]["caller"]["id"] for each in line.calls] == ["ci", "ci", "eve", "ci"]
    assert line.calls[2]["context"]["caller"] == {"id": "eve", "proof": "token", "scopes": ["c"], "acting_for": "bob"}


@pytest.mark.parametrize("link", [NULL_LINK, ThrottledLink(Hearing())], ids=["nobody", "cleaned"])
async def test_remote_runner_sends_client_features(link: ClientLink) -> None:
    house = House(line := FakeTransport())
    await house.run(link=link)
    assert line.calls[0]["context"].get("can") == (None if link is NULL_LINK else ["elicitation"])


async def test_remote_runner_call_ids_are_unique_across_halls() -> None:
    line = FakeTransport()
    for house in (House(line), House(line)):
        for _ in range(3):
            await house.run()
    assert len({each["id"] for each in line.calls}) == 6


async def test_remote_runner_retry_has_remaining_time() -> None:
    house, one, other = one_and_other(lost(delivered=False))

    async def slowly(call_id: str, on_report: ReportHandler) -> None:
        deadline.start()
        await asyncio.sleep(0.001)

    one.says = slowly
    deadline = Deadline(60)
    await house.run(patience=deadline)
    deadline.stop()
    assert one.calls[0]["context"]["timeout"] == 60
    assert 0 < other.calls[0]["context"]["timeout"] < 60
    assert one.calls[0]["id"] != other.calls[0]["id"]


# --- what comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ToolFailed("no"), BadArguments([Problem("/a", "is missing")]), Unavailable("away")])
async def test_remote_runner_tool_error_is_no_replica_failure(error: Exception) -> None:
    house, one, other = one_and_other(*[error] * 6)
    for _ in range(6):
        house.first(0)
        with pytest.raises(type(error)):
            await house.run()
    assert (len(one.calls), len(other.calls)) == (6, 0)
    assert house.replicas[0].circuit.is_closed
    assert not house.replicas[0].is_suspected


async def test_remote_runner_relays_events_in_order() -> None:
    house = House(line := FakeTransport())
    line.says = says(
        ProgressMessage("", 1, 2, "half"), LogMessage("", "warning", {"a": 1}, "it"), ProgressMessage("", 2)
    )
    link = Hearing()
    await house.run(link=link)
    assert link.events == [ProgressEvent(1, 2, "half"), LogEvent("warning", {"a": 1}, "it"), ProgressEvent(2)]


async def test_remote_runner_question_holds_deadline() -> None:
    def answered(key: str, question: Question) -> Answered:
        assert holding.holds == 1
        return Filled("accept", {"name": question.message if isinstance(question, Form) else ""})

    holding = Counting()
    house = House(line := FakeTransport())
    answers: list[JsonObject] = []
    line.says = says(question(), answers=answers)
    await house.run(link=Hearing(answered), patience=holding)
    filled = {"kind": "filled", "action": "accept", "content": {"name": "who?"}}
    assert answers == [{"type": "tool_answer", "id": "", "number": 3, "answers": {"q": filled}}]
    assert holding.holds == 0


async def test_remote_runner_unanswerable_question_is_sent_as_error() -> None:
    class Unable(Hearing):
        async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
            raise Unsupported("sampling")

    house = House(line := FakeTransport())
    answers: list[JsonObject] = []
    line.says = says(question(), answers=answers)
    await house.run(link=Unable())
    assert answers[0]["error"]["code"] == "UNSUPPORTED"
    assert answers[0]["error"]["details"] == {"feature": "sampling"}


class Later(Hearing):
    """Its answers come with a later call."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        self.asked += 1
        raise InputRequiredSignal(questions)


@pytest.mark.parametrize(
    "end", [{"done": True}, ToolFailed("unwound"), NOT_STARTED, lost(delivered=True), ResponseTooLarge("much")], ids=str
)
async def test_remote_runner_deferred_question_raises_input_required(end: Any) -> None:
    house, one, other = one_and_other(end, idempotent=("*",))
    answers: list[JsonObject] = []
    one.says = says(question(), question(), answers=answers)
    link = Later()
    with pytest.raises(InputRequiredSignal) as raised:
        await house.run(link=link)
    assert raised.value.questions == {"q": Form("who?", {})}
    assert [each["later"] for each in answers] == [True, True]
    assert link.asked == 1  # it was told to unwind, and asked again
    assert other.calls == []
    assert house.replicas[0].running == 0


@pytest.mark.parametrize(("stated", "taken"), [(500, 500), (-1, 0), (10**30, 60_000)])
async def test_remote_runner_relays_detach(stated: int, taken: int) -> None:
    house = House(line := FakeTransport())
    answers: list[JsonObject] = []
    line.says = says(QuestionMessage("", 1, {}, stated), answers=answers)
    await house.run(link=(link := Hearing()))
    assert link.retries == [taken]
    assert answers == [{"type": "tool_answer", "id": "", "number": 1}]


# --- when it is tried again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [lost(delivered=False), NOT_STARTED, NoSuchMethod(), NotFound()], ids=str)
async def test_remote_runner_not_started_call_is_retried(failure: Any) -> None:
    house, one, other = one_and_other(failure)
    assert await house.run() == {"by": "other"}
    assert (len(one.calls), len(other.calls)) == (1, 1)
    assert (house.pools.lost_calls, house.pools.retried_calls) == (0, 1)
    assert house.replicas[0].is_suspected
    house.first(0)
    await house.run()  # the next call does not even try it
    assert len(one.calls) == 1


async def test_remote_runner_delivered_call_is_not_retried() -> None:
    house, one, other = one_and_other(lost(delivered=True))
    with pytest.raises(Unavailable, match="whether it had an effect is not known") as raised:
        await house.run()
    assert (len(one.calls), len(other.calls)) == (1, 0)
    assert (house.pools.lost_calls, house.pools.retried_calls) == (1, 0)
    assert raised.value.detail == "a replica of the tool server 'servers' was lost: its connection broke"


@pytest.mark.parametrize(("globs", "again"), [(("Kit.pick",), True), (("Kit.*", "x"), True), (("Kit.other",), False)])
async def test_remote_runner_idempotent_tool_is_retried(globs: tuple[str, ...], *, again: bool) -> None:
    house, _, other = one_and_other(lost(delivered=True), idempotent=globs)
    if again:
        assert await house.run() == {"by": "other"}
    else:
        with pytest.raises(Unavailable):
            await house.run()
    assert len(other.calls) == again


@pytest.mark.parametrize(
    "report", [ProgressMessage("", 1), LogMessage("", "info", "x"), QuestionMessage("", 1)], ids=str
)
async def test_remote_runner_call_with_events_is_not_retried(report: CallEvent) -> None:
    for failure in (lost(delivered=True), NOT_STARTED):
        house, one, other = one_and_other(failure, idempotent=("*",))
        one.says = says(report)
        with pytest.raises(Unavailable):
            await house.run()
        assert other.calls == []


async def test_remote_runner_not_started_call_tries_every_replica_once() -> None:
    dead = [FakeTransport(lost(delivered=False)), FakeTransport(NOT_STARTED), FakeTransport(lost(delivered=False))]
    house = House(*dead, FakeTransport({"by": "the last"}))
    house.replicas[3].running = 1
    assert await house.run() == {"by": "the last"}
    assert [len(line.calls) for line in house.lines] == [1] * 4
    assert (house.pools.lost_calls, house.pools.retried_calls) == (0, 3)

    house = House(*(FakeTransport(lost(delivered=False)) for _ in range(3)))
    with pytest.raises(Unavailable, match="did not run"):
        await house.run()
    assert [len(line.calls) for line in house.lines] == [1] * 3


async def test_remote_runner_expired_call_is_not_retried() -> None:
    house, _, other = one_and_other(lost(delivered=False))
    with pytest.raises(Unavailable, match="did not run"):
        await house.run(patience=Deadline(0))
    assert other.calls == []


async def test_remote_runner_twice_delivered_call_is_not_retried() -> None:
    house = House(*(FakeTransport(lost(delivered=True)) for _ in range(3)), idempotent=("*",))
    with pytest.raises(Unavailable, match="whether it had an effect is not known"):
        await house.run()
    assert sum(len(line.calls) for line in house.lines) == 2
    assert (house.pools.lost_calls, house.pools.retried_calls) == (2, 1)


@pytest.mark.parametrize("failure", [lost(delivered=False), NOT_STARTED], ids=str)
async def test_remote_runner_delivered_loss_decides_error(failure: Any) -> None:
    house, one, other = one_and_other(lost(delivered=True), idempotent=("*",))
    other.ends = [failure]
    with pytest.raises(Unavailable, match="whether it had an effect is not known"):
        await house.run()
    assert (len(one.calls), len(other.calls)) == (1, 1)


async def test_remote_runner_second_run_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    house, *_ = one_and_other(lost(delivered=True), idempotent=("Kit.*",))
    await house.run()
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "toolhall.toolservers")
    assert record.getMessage() == "call call-1 of Kit.pick@1.0.0 was lost, and is run again: it is marked idempotent"
    caplog.clear()
    house, *_ = one_and_other(lost(delivered=False), idempotent=("Kit.*",))
    await house.run()  # for the first time
    assert not caplog.records


async def test_remote_runner_oversized_response_is_bad_output() -> None:
    house, one, other = one_and_other(*[ResponseTooLarge("more than 10 bytes")] * 6, idempotent=("*",))
    house.replicas[0].circuit.record_failure()
    for _ in range(6):
        house.first(0)
        with pytest.raises(BadOutput, match=r"^the tool returned more than is passed on$") as raised:
            await house.run()
        assert raised.value.detail == "more than 10 bytes"
    assert (len(one.calls), len(other.calls)) == (6, 0)
    assert house.replicas[0].circuit.is_closed
    assert not house.replicas[0].is_suspected
    assert (house.pools.lost_calls, house.pools.retried_calls) == (0, 0)


async def test_remote_runner_without_other_replica_raises_first_failure() -> None:
    house = House(FakeTransport(lost(delivered=False), NOT_STARTED))
    with pytest.raises(Unavailable, match="cannot be reached now; the call did not run"):
        await house.run()
    with pytest.raises(Unavailable, match="it is full"):
        await house.run()
    assert house.pools.retried_calls == 0


async def test_remote_runner_retries_are_limited_by_budget() -> None:
    class Full(FakeTransport):
        async def call(self, request: bytes, id: str, on_report: ReportHandler) -> Any:  # noqa: A002
            self.ends = [NOT_STARTED]
            return await super().call(request, id, on_report)

    house = House(Full(), Full())
    for _ in range(300):
        with pytest.raises(Unavailable):
            await house.run()
    assert house.pools.retried_calls == 30


async def test_remote_runner_open_circuit_refuses_at_once() -> None:
    line = FakeTransport(*[lost(delivered=True)] * 5)
    house = House(line)
    for _ in range(5):
        with pytest.raises(Unavailable, match="was lost"):
            await house.run()
    with pytest.raises(Unavailable, match="try again in 30 seconds"):
        await house.run()
    assert len(line.calls) == 5
    house.clock.now += 30
    assert await house.run() == {"by": "default"}
    assert house.replicas[0].circuit.state == "closed"


async def test_remote_runner_success_clears_suspicion() -> None:
    house = House(FakeTransport(NOT_STARTED))
    with pytest.raises(Unavailable):
        await house.run()
    assert house.replicas[0].is_suspected
    await house.run()
    assert not house.replicas[0].is_suspected


async def test_remote_runner_tool_never_served_is_reported() -> None:
    house = House()
    with pytest.raises(Unavailable, match=r"^Kit\.pick@1\.0\.0 is defined, but nothing runs it$"):
        await house.run()
    replica = Replica(replica_info(), FakeTransport(), house.clock)
    house.pools.add(replica)
    house.pools.remove(replica)
    with pytest.raises(Unavailable, match="no tool server runs Kit now"):
        await house.run()


async def test_remote_runner_cancelled_call_does_not_affect_health() -> None:
    house = House(HoldingTransport())
    (replica,) = house.replicas
    for _ in range(5):
        replica.circuit.record_failure()
    house.clock.now += 30
    call = asyncio.ensure_future(house.run())
    await asyncio.sleep(0)
    assert (replica.running, replica.circuit.allows_call()) == (1, False)
    call.cancel()
    await asyncio.wait([call])
    assert (replica.running, replica.circuit.allows_call(), replica.circuit.state) == (0, True, "half-open")


# --- parts -----------------------------------------------------------------------------------------------------------


class Counting(Deadline):
    """Says how often it is held now."""

    def __init__(self) -> None:
        super().__init__(60)

    @property
    def holds(self) -> int:
        return self._holds


def question() -> QuestionMessage:
    return QuestionMessage("", 3, {"q": Form("who?", {})})


def says(*reports: CallEvent, answers: list[JsonObject] | None = None) -> Any:
    """What a line passes on before the end; what is answered is kept."""

    async def say(call_id: str, on_report: ReportHandler) -> None:
        for report in reports:
            answer = await on_report(report)
            if answers is not None and answer is not None:
                answers.append(msgspec.json.decode(answer))

    return say
