"""Tools in a worker process: they give what they would give here, and only they pay for what they do there."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.threats import isolated_tools as tools
from tests.unit.builders import RecordingLink, call_of
from toolhall.authoring.definition import definitions_of
from toolhall.execution.deadline import Deadline
from toolhall.execution.function_ref import FunctionRef, function_ref_for
from toolhall.execution.process_runner import ProcessRunner
from toolhall.execution.worker_pool import WorkerPool
from toolhall.execution.worker_protocol import (
    WorkerLimits,
    WorkerToolError,
    credentials_from_payload,
    credentials_to_payload,
)
from toolhall.model.caller import Caller
from toolhall.model.content import Audio, Image, Notes, Reply, Resource, ResourceLink, Text
from toolhall.model.errors import BadArguments, BadOutput, ToolFailed, Unavailable
from toolhall.model.messages import Answered, Filled, InputRequiredSignal, LogEvent, ProgressEvent, Question
from toolhall.model.requirements import AccountToken, ResolvedCredentials
from toolhall.model.secret import Secret


@pytest.fixture
def workers() -> Iterator[WorkerPool]:
    made = WorkerPool(WorkerLimits())
    yield made
    made.close()


async def run(
    workers: WorkerPool, function: Any, link: Any = None, equipment: ResolvedCredentials | None = None, **arguments: Any
) -> Any:
    definition = next(definitions_of(function))
    runner = ProcessRunner(function_ref_for(definition.body), workers, 60)
    call = call_of(arguments=arguments, caller=Caller("ada"), link=link or RecordingLink())
    call = msgspec.structs.replace(call, credentials=equipment)
    return await runner.run(definition.tool, call, arguments, Deadline(60))


async def test_process_runner_reuses_worker_within_module(workers: WorkerPool) -> None:
    first = await run(workers, tools.where)
    assert first != os.getpid()
    assert await run(workers, tools.where_async) == first
    assert await run(workers, tools.move, point={"x": 1, "y": 2}, by=3) == {"x": 4, "y": 5}


async def test_process_runner_sends_credentials_for_one_call_only(workers: WorkerPool) -> None:
    equipment = ResolvedCredentials({"KEY": Secret("SK01")}, {"google": AccountToken("google", Secret("ya29"))}, "ada")
    assert await run(workers, tools.supplied, equipment=equipment) == ["S-K-0-1", "y-a-2-9", "a-d-a"]
    with pytest.raises(WorkerToolError, match="does not declare the secret"):
        await run(workers, tools.supplied)


def test_credential_payload_repr_hides_values() -> None:
    equipment = ResolvedCredentials({"KEY": Secret("SK01")}, {"google": AccountToken("google", Secret("ya29"))}, "ada")
    assert repr(credentials_to_payload(equipment)) == "CredentialPayload(...)"
    assert "ya29" not in repr(credentials_to_payload(equipment).accounts)  # type: ignore[union-attr]
    assert credentials_from_payload(credentials_to_payload(equipment)) == equipment


async def test_process_runner_returns_values_of_every_type(workers: WorkerPool) -> None:
    notes = Notes(audience=("user",), priority=0.5)
    same: dict[str, Any] = {
        "nothing": None,
        "text": "a\nb",
        "list": [1, 2.5, None, {"a": []}],
        "block": (Text("x", notes, {"m": 1}),),
        "blocks": (Image(b"\x00\xff", notes=notes), Audio(b"\xfe"), ResourceLink(uri="a:b", name="n", size=3)),
        "resource": (Resource(uri="a:b", content="text"),),
        "bytes": (Resource(uri="a:b", content=b"\xff\x00", mime_type="x/y"),),
        "reply": Reply((Text("x"),), {"x": 1, "y": 2}, {"k": "v"}, is_error=False),
        "bare reply": Reply((Text("x"),), msgspec.UNSET, is_error=True),
    }
    assert {kind: await run(workers, tools.everything, kind=kind) for kind in same} == same
    for kind in ("set", "wrong block"):
        with pytest.raises(BadOutput, match="cannot be written"):
            await run(workers, tools.everything, kind=kind)


async def test_process_runner_relays_events_and_questions(workers: WorkerPool) -> None:
    def answered(key: str, question: Question) -> Answered:
        return Filled("accept", {"name": "Ada"})

    link = RecordingLink(answered)
    assert await run(workers, tools.tell, link) == ["ada", "True", "False"]
    assert link.events == [ProgressEvent(1, 2, "half"), LogEvent("warning", {"a": 1}, "tell")]
    assert await run(workers, tools.greet, link) == "hello Ada"


async def test_process_runner_deferred_question_raises_input_required(workers: WorkerPool) -> None:
    class Later(RecordingLink):
        async def ask(self, questions: Any) -> Any:
            raise InputRequiredSignal(questions)

    with pytest.raises(InputRequiredSignal, match="form_1") as asking:
        await run(workers, tools.greet, Later())
    assert asking.value.questions["form_1"].message == "Who?"  # type: ignore[union-attr]
    assert workers.lost == 0


async def test_process_runner_errors_keep_their_class(workers: WorkerPool) -> None:
    with pytest.raises(ToolFailed, match="not today") as failed:
        await run(workers, tools.fail)
    assert (failed.value.retry_after, failed.value.can_retry, failed.value.prompt) == (3, True, "ask for less")
    with pytest.raises(BadArguments, match="/point/x"):
        await run(workers, tools.move, point={"x": "one", "y": 2})
    with pytest.raises(WorkerToolError, match=r"in raises\n(?s:.*)ValueError: CANARY"):
        await run(workers, tools.raises)
    assert workers.lost == 0


async def test_process_runner_toolkit_state_lives_in_worker(workers: WorkerPool) -> None:
    definitions = {each.tool.id.tool: each for each in definitions_of(tools.Counter)}
    runner = ProcessRunner(function_ref_for(definitions["count_up"].body), workers, 60)
    pids = [await runner.run(definitions["count_up"].tool, call_of(), {}, Deadline(60)) for _ in range(2)]
    assert pids == [[pids[0][0], 1], [pids[0][0], 2]]  # type: ignore[index]
    assert not definitions["here"].body.isolated
    said = await run(workers, tools.anna.said)
    assert said.startswith("anna ")
    assert said != f"anna {os.getpid()}"


async def test_process_runner_cancelled_call_kills_worker(workers: WorkerPool) -> None:
    task = asyncio.ensure_future(run(workers, tools.block))
    while not workers.running:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert workers.running == 0


async def test_process_runner_import_failure_is_unavailable(workers: WorkerPool, tmp_path: Path) -> None:
    (tmp_path / "unfit.py").write_text("raise RuntimeError('only here')")
    runner = ProcessRunner(FunctionRef("unfit", str(tmp_path / "unfit.py"), ("f",)), workers, 60)
    with pytest.raises(Unavailable, match="the server's log says why"):
        await runner.run(next(definitions_of(tools.where)).tool, call_of(), {}, Deadline(60))


async def test_worker_pool_keeps_at_most_size_workers() -> None:
    workers = WorkerPool(WorkerLimits(), size=1)
    try:
        pids = await asyncio.gather(run(workers, tools.where), run(workers, tools.where_async))
        assert len(set(pids)) == 2  # the first worker of a tool comes out of the reserve
        assert await run(workers, tools.where) in pids
    finally:
        workers.close()


async def test_process_runner_toolhall_in_module_opens_nothing_in_worker(tmp_path: Path) -> None:
    file = tmp_path / "with_hall.py"
    data = tmp_path / "data"
    file.write_text(
        "from toolhall import Config, Toolhall, tool\n"
        "@tool(isolated=True)\n"
        "def data() -> str | None:\n    return hall.config.data\n"
        f"hall = Toolhall(data, config=Config(data={str(data)!r}))\n"
    )
    workers = WorkerPool(WorkerLimits())
    runner = ProcessRunner(FunctionRef("with_hall", str(file), ("data",)), workers, 60)
    try:
        assert await runner.run(next(definitions_of(tools.where)).tool, call_of(), {}, Deadline(60)) is None
    finally:
        workers.close()
    assert not data.exists()
