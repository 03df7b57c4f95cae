"""A call in a tool server: what is sent, what comes back, and when it is tried again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.unit.builders import Clock, RecordingLink, call_of, tool_named
from tests.unit.execution.remote.fake_transports import (
    NOT_STARTED,
    FakeTransport,
    HoldingTransport,
    lost,
    pools_of,
    replica_info,
)
from toolhall.authoring.context import PausableDeadline
from toolhall.dialects.hub.call_messages import CallEvent, LogMessage, ProgressMessage, QuestionMessage
from toolhall.dialects.hub.results import NoSuchMethod
from toolhall.egress.exchange import ExchangeTooLarge
from toolhall.execution.client_link import ThrottledLink
from toolhall.execution.deadline import Deadline
from toolhall.execution.remote.remote_runner import RemoteRunner
from toolhall.execution.remote.replica import Replica
from toolhall.execution.remote.replica_transport import ReportHandler
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


class RunnerHarness:
    """A remote runner with one replica for each transport."""

    def __init__(self, *transports: FakeTransport, idempotent: tuple[str, ...] = ()) -> None:
        self.clock = Clock()
        self.transports = transports
        self.replicas = [
            Replica(replica_info(str(number)), transport, self.clock) for number, transport in enumerate(transports)
        ]
        self.pools = pools_of(self.clock, *self.replicas)
        self.runner = RemoteRunner(self.pools, idempotent, self.clock)

    def first(self, number: int) -> None:
        """Make this replica the least loaded."""
        for replica in self.replicas:
            replica.running = int(replica is not self.replicas[number])

    async def run(
        self, tool: Tool = PICK, link: Any = None, patience: PausableDeadline | None = None, **more: Any
    ) -> object:
        call = msgspec.structs.replace(call_of(caller=ADA, link=link or RecordingLink()), **more)
        return await self.runner.run(tool, call, {"colour": "red"}, patience or Deadline(60))


def two_replicas(
    *ends: Json | Exception, idempotent: tuple[str, ...] = ()
) -> tuple[RunnerHarness, FakeTransport, FakeTransport]:
    """Two replicas; the first one is tried first, and ends its calls so."""
    one, other = FakeTransport(*ends), FakeTransport({"by": "other"})
    harness = RunnerHarness(one, other, idempotent=idempotent)
    harness.first(0)
    return harness, one, other


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_remote_runner_sends_tool_request() -> None:
    transport = FakeTransport({"n": 1})
    harness = RunnerHarness(transport)
    assert await harness.run() == {"n": 1}
    (sent,) = transport.calls
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
            "reports": ["tool_changed"],
        },
    }


async def test_remote_runner_sends_declared_credentials_only() -> None:
    equipment = ResolvedCredentials(
        {"KEY": Secret("SK01")}, {"google": AccountToken("google", Secret("ya29"), ("calendar",), 5.0)}, "ada"
    )
    transport = FakeTransport()
    harness = RunnerHarness(transport)
    await harness.run(tool_named("pick", requirements={"secrets": [{"id": "KEY"}]}), credentials=equipment)
    await harness.run(tool_named("pick", requirements={"user_id": True}), credentials=equipment)
    first, second = (each["context"] for each in transport.calls)
    assert first["secrets"] == {"KEY": "SK01"}
    assert first["accounts"] == {"google": {"token": "ya29", "scopes": ["calendar"], "expires_at": 5.0}}
    assert "user_id" not in first
    assert second["user_id"] == "ada"
    assert b"key-of-ada" not in msgspec.json.encode(transport.calls)


async def test_remote_runner_sends_each_calls_own_caller() -> None:
    harness = RunnerHarness(transport := FakeTransport())
    eve = Caller("eve", proof="token", scopes=frozenset({"c"}), acting_for="bob")
    for caller in (ADA, ADA, eve, ADA):
        await harness.run(caller=caller)
    assert [each["context"]["caller"]["id"] for each in transport.calls] == ["ci", "ci", "eve", "ci"]
    assert transport.calls[2]["context"]["caller"] == {
        "id": "eve",
        "proof": "token",
        "scopes": ["c"],
        "acting_for": "bob",
    }


@pytest.mark.parametrize("link", [NULL_LINK, ThrottledLink(RecordingLink())], ids=["nobody", "cleaned"])
async def test_remote_runner_sends_client_features(link: ClientLink) -> None:
    harness = RunnerHarness(transport := FakeTransport())
    await harness.run(link=link)
    assert transport.calls[0]["context"].get("can") == (None if link is NULL_LINK else ["elicitation"])


async def test_remote_runner_call_ids_are_unique_across_halls() -> None:
    transport = FakeTransport()
    for harness in (RunnerHarness(transport), RunnerHarness(transport)):
        for _ in range(3):
            await harness.run()
    assert len({each["id"] for each in transport.calls}) == 6


async def test_remote_runner_retry_has_remaining_time() -> None:
    harness, one, other = two_replicas(lost(delivered=False))

    async def slowly(call_id: str, on_report: ReportHandler) -> None:
        deadline.start()
        await asyncio.sleep(0.001)

    one.says = slowly
    deadline = Deadline(60)
    await harness.run(patience=deadline)
    deadline.stop()
    assert one.calls[0]["context"]["timeout"] == 60
    assert 0 < other.calls[0]["context"]["timeout"] < 60
    assert one.calls[0]["id"] != other.calls[0]["id"]


# --- what comes back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ToolFailed("no"), BadArguments([Problem("/a", "is missing")]), Unavailable("away")])
async def test_remote_runner_tool_error_is_no_replica_failure(error: Exception) -> None:
    harness, one, other = two_replicas(*[error] * 6)
    for _ in range(6):
        harness.first(0)
        with pytest.raises(type(error)):
            await harness.run()
    assert (len(one.calls), len(other.calls)) == (6, 0)
    assert harness.replicas[0].circuit.is_closed
    assert not harness.replicas[0].is_suspected


async def test_remote_runner_relays_events_in_order() -> None:
    harness = RunnerHarness(transport := FakeTransport())
    transport.says = says(
        ProgressMessage("", 1, 2, "half"), LogMessage("", "warning", {"a": 1}, "it"), ProgressMessage("", 2)
    )
    link = RecordingLink()
    await harness.run(link=link)
    assert link.events == [ProgressEvent(1, 2, "half"), LogEvent("warning", {"a": 1}, "it"), ProgressEvent(2)]


async def test_remote_runner_question_holds_deadline() -> None:
    def answered(key: str, question: Question) -> Answered:
        assert holding.holds == 1
        return Filled("accept", {"name": question.message if isinstance(question, Form) else ""})

    holding = CountingDeadline()
    harness = RunnerHarness(transport := FakeTransport())
    answers: list[JsonObject] = []
    transport.says = says(question(), answers=answers)
    await harness.run(link=RecordingLink(answered), patience=holding)
    filled = {"kind": "filled", "action": "accept", "content": {"name": "who?"}}
    assert answers == [{"type": "tool_answer", "id": "", "number": 3, "answers": {"q": filled}}]
    assert holding.holds == 0


async def test_remote_runner_unanswerable_question_is_sent_as_error() -> None:
    class Unable(RecordingLink):
        async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
            raise Unsupported("sampling")

    harness = RunnerHarness(transport := FakeTransport())
    answers: list[JsonObject] = []
    transport.says = says(question(), answers=answers)
    await harness.run(link=Unable())
    assert answers[0]["error"]["code"] == "UNSUPPORTED"
    assert answers[0]["error"]["details"] == {"feature": "sampling"}


class DeferringLink(RecordingLink):
    """A link that defers questions to a later call."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        self.asked += 1
        raise InputRequiredSignal(questions)


@pytest.mark.parametrize(
    "end", [{"done": True}, ToolFailed("unwound"), NOT_STARTED, lost(delivered=True), ExchangeTooLarge("much")], ids=str
)
async def test_remote_runner_deferred_question_raises_input_required(end: Any) -> None:
    harness, one, other = two_replicas(end, idempotent=("*",))
    answers: list[JsonObject] = []
    one.says = says(question(), question(), answers=answers)
    link = DeferringLink()
    with pytest.raises(InputRequiredSignal) as raised:
        await harness.run(link=link)
    assert raised.value.questions == {"q": Form("who?", {})}
    assert [each["later"] for each in answers] == [True, True]
    assert link.asked == 1  # it was told to unwind, and asked again
    assert other.calls == []
    assert harness.replicas[0].running == 0


@pytest.mark.parametrize(("stated", "taken"), [(500, 500), (-1, 0), (10**30, 60_000)])
async def test_remote_runner_relays_detach(stated: int, taken: int) -> None:
    harness = RunnerHarness(transport := FakeTransport())
    answers: list[JsonObject] = []
    transport.says = says(QuestionMessage("", 1, {}, stated), answers=answers)
    await harness.run(link=(link := RecordingLink()))
    assert link.retries == [taken]
    assert answers == [{"type": "tool_answer", "id": "", "number": 1}]


# --- when it is tried again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [lost(delivered=False), NOT_STARTED, NoSuchMethod(), NotFound()], ids=str)
async def test_remote_runner_not_started_call_is_retried(failure: Any) -> None:
    harness, one, other = two_replicas(failure)
    assert await harness.run() == {"by": "other"}
    assert (len(one.calls), len(other.calls)) == (1, 1)
    assert (harness.pools.lost_calls, harness.pools.retried_calls) == (0, 1)
    assert harness.replicas[0].is_suspected
    harness.first(0)
    await harness.run()  # the next call does not even try it
    assert len(one.calls) == 1


async def test_remote_runner_delivered_call_is_not_retried() -> None:
    harness, one, other = two_replicas(lost(delivered=True))
    with pytest.raises(Unavailable, match="whether it had an effect is not known") as raised:
        await harness.run()
    assert (len(one.calls), len(other.calls)) == (1, 0)
    assert (harness.pools.lost_calls, harness.pools.retried_calls) == (1, 0)
    assert raised.value.detail == "a replica of the tool server 'servers' was lost: its connection broke"


@pytest.mark.parametrize(("globs", "again"), [(("Kit.pick",), True), (("Kit.*", "x"), True), (("Kit.other",), False)])
async def test_remote_runner_idempotent_tool_is_retried(globs: tuple[str, ...], *, again: bool) -> None:
    harness, _, other = two_replicas(lost(delivered=True), idempotent=globs)
    if again:
        assert await harness.run() == {"by": "other"}
    else:
        with pytest.raises(Unavailable):
            await harness.run()
    assert len(other.calls) == again


@pytest.mark.parametrize(
    "report", [ProgressMessage("", 1), LogMessage("", "info", "x"), QuestionMessage("", 1)], ids=str
)
async def test_remote_runner_call_with_events_is_not_retried(report: CallEvent) -> None:
    for failure in (lost(delivered=True), NOT_STARTED):
        harness, one, other = two_replicas(failure, idempotent=("*",))
        one.says = says(report)
        with pytest.raises(Unavailable):
            await harness.run()
        assert other.calls == []


async def test_remote_runner_not_started_call_tries_every_replica_once() -> None:
    dead = [FakeTransport(lost(delivered=False)), FakeTransport(NOT_STARTED), FakeTransport(lost(delivered=False))]
    harness = RunnerHarness(*dead, FakeTransport({"by": "the last"}))
    harness.replicas[3].running = 1
    assert await harness.run() == {"by": "the last"}
    assert [len(transport.calls) for transport in harness.transports] == [1] * 4
    assert (harness.pools.lost_calls, harness.pools.retried_calls) == (0, 3)

    harness = RunnerHarness(*(FakeTransport(lost(delivered=False)) for _ in range(3)))
    with pytest.raises(Unavailable, match="did not run"):
        await harness.run()
    assert [len(transport.calls) for transport in harness.transports] == [1] * 3


async def test_remote_runner_expired_call_is_not_retried() -> None:
    harness, _, other = two_replicas(lost(delivered=False))
    with pytest.raises(Unavailable, match="did not run"):
        await harness.run(patience=Deadline(0))
    assert other.calls == []


async def test_remote_runner_twice_delivered_call_is_not_retried() -> None:
    harness = RunnerHarness(*(FakeTransport(lost(delivered=True)) for _ in range(3)), idempotent=("*",))
    with pytest.raises(Unavailable, match="whether it had an effect is not known"):
        await harness.run()
    assert sum(len(transport.calls) for transport in harness.transports) == 2
    assert (harness.pools.lost_calls, harness.pools.retried_calls) == (2, 1)


@pytest.mark.parametrize("failure", [lost(delivered=False), NOT_STARTED], ids=str)
async def test_remote_runner_delivered_loss_decides_error(failure: Any) -> None:
    harness, one, other = two_replicas(lost(delivered=True), idempotent=("*",))
    other.ends = [failure]
    with pytest.raises(Unavailable, match="whether it had an effect is not known"):
        await harness.run()
    assert (len(one.calls), len(other.calls)) == (1, 1)


async def test_remote_runner_second_run_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    harness, *_ = two_replicas(lost(delivered=True), idempotent=("Kit.*",))
    await harness.run()
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "toolhall.toolservers")
    assert record.getMessage() == "call call-1 of Kit.pick@1.0.0 was lost, and is run again: it is marked idempotent"
    caplog.clear()
    harness, *_ = two_replicas(lost(delivered=False), idempotent=("Kit.*",))
    await harness.run()  # for the first time
    assert not caplog.records


async def test_remote_runner_oversized_response_is_bad_output() -> None:
    harness, one, other = two_replicas(*[ExchangeTooLarge("more than 10 bytes")] * 6, idempotent=("*",))
    harness.replicas[0].circuit.record_failure()
    for _ in range(6):
        harness.first(0)
        with pytest.raises(BadOutput, match=r"^the tool returned more than is passed on$") as raised:
            await harness.run()
        assert raised.value.detail == "more than 10 bytes"
    assert (len(one.calls), len(other.calls)) == (6, 0)
    assert harness.replicas[0].circuit.is_closed
    assert not harness.replicas[0].is_suspected
    assert (harness.pools.lost_calls, harness.pools.retried_calls) == (0, 0)


async def test_remote_runner_without_other_replica_raises_first_failure() -> None:
    harness = RunnerHarness(FakeTransport(lost(delivered=False), NOT_STARTED))
    with pytest.raises(Unavailable, match="cannot be reached now; the call did not run"):
        await harness.run()
    with pytest.raises(Unavailable, match="it is full"):
        await harness.run()
    assert harness.pools.retried_calls == 0


async def test_remote_runner_retries_are_limited_by_budget() -> None:
    class Full(FakeTransport):
        async def call(self, request: bytes, id: str, on_report: ReportHandler) -> Any:  # noqa: A002
            self.ends = [NOT_STARTED]
            return await super().call(request, id, on_report)

    harness = RunnerHarness(Full(), Full())
    for _ in range(300):
        with pytest.raises(Unavailable):
            await harness.run()
    assert harness.pools.retried_calls == 30


async def test_remote_runner_open_circuit_refuses_at_once() -> None:
    transport = FakeTransport(*[lost(delivered=True)] * 5)
    harness = RunnerHarness(transport)
    for _ in range(5):
        with pytest.raises(Unavailable, match="was lost"):
            await harness.run()
    with pytest.raises(Unavailable, match="try again in 30 seconds"):
        await harness.run()
    assert len(transport.calls) == 5
    harness.clock.now += 30
    assert await harness.run() == {"by": "default"}
    assert harness.replicas[0].circuit.state == "closed"


async def test_remote_runner_success_clears_suspicion() -> None:
    harness = RunnerHarness(FakeTransport(NOT_STARTED))
    with pytest.raises(Unavailable):
        await harness.run()
    assert harness.replicas[0].is_suspected
    await harness.run()
    assert not harness.replicas[0].is_suspected


async def test_remote_runner_tool_never_served_is_reported() -> None:
    harness = RunnerHarness()
    with pytest.raises(Unavailable, match=r"^Kit\.pick@1\.0\.0 is defined, but nothing runs it$"):
        await harness.run()
    replica = Replica(replica_info(), FakeTransport(), harness.clock)
    harness.pools.add(replica)
    harness.pools.remove(replica)
    with pytest.raises(Unavailable, match="no tool server runs Kit now"):
        await harness.run()


async def test_remote_runner_cancelled_call_does_not_affect_health() -> None:
    harness = RunnerHarness(HoldingTransport())
    (replica,) = harness.replicas
    for _ in range(5):
        replica.circuit.record_failure()
    harness.clock.now += 30
    call = asyncio.ensure_future(harness.run())
    await asyncio.sleep(0)
    assert (replica.running, replica.circuit.allows_call()) == (1, False)
    call.cancel()
    await asyncio.wait([call])
    assert (replica.running, replica.circuit.allows_call(), replica.circuit.state) == (0, True, "half-open")


# --- parts -----------------------------------------------------------------------------------------------------------


class CountingDeadline(Deadline):
    """A deadline that counts its holds."""

    seconds: float = 60

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
