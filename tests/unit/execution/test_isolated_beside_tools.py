"""Resources, prompts and completions of an isolated toolkit: as in the hall, but in a worker process."""

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.execution.isolated_library import CONTENTS, MESSAGES, Library
from toolhall import Toolhall
from toolhall.model.caller import LOCAL
from toolhall.model.content import Image, Resource, Text
from toolhall.model.errors import Crashed
from toolhall.model.messages import CallTool, Complete, CompletedCall, Completion
from toolhall.model.tool import Kind


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(Library) as hall:
        await hall.open()
        yield hall
        await hall.settle()


async def ask(hall: Toolhall, name: str, kind: Kind, **arguments: str) -> Any:
    answer = await hall.dispatcher.answer(CallTool(name, arguments, "mcp", kind=kind), LOCAL)
    return answer.result if isinstance(answer, CompletedCall) else type(answer).__name__


async def read(hall: Toolhall, what: str) -> Any:
    found = await ask(hall, f"library://read/{what}", "resource")
    return found if isinstance(found, str) else found.content


async def complete(hall: Toolhall, kind: Kind, name: str, typed: str = "", **given: str) -> object:
    asked = Complete(kind=kind, name=name, argument="what", typed=typed, given=given, dialect="mcp")
    return await hall.dispatcher.complete(asked, LOCAL)


async def test_isolated_resource_is_read_in_an_entered_worker_process(hall: Toolhall) -> None:
    (content,) = (await ask(hall, "library://process", "resource")).content
    process, entered_in = content.content.split()
    assert process == entered_in != str(os.getpid())


async def test_isolated_resource_reads_everything_that_one_in_the_hall_reads(hall: Toolhall) -> None:
    told: list[str] = []
    hall.dispatcher.changes.subscribe("library://read/text", told.append)
    assert await read(hall, "text") == (Resource(uri="library://read/text", content="a\nb"),)
    assert await read(hall, "bytes") == (Resource(uri="library://read/bytes", content=b"\x00\xff"),)
    (value,) = await read(hall, "value")
    assert (value.content, value.mime_type) == ('{"a":[1,null]}', "application/json")
    assert await read(hall, "one") == (CONTENTS["one"],)
    assert await read(hall, "two") == tuple(CONTENTS["two"])
    assert [await read(hall, "nothing"), await read(hall, "none")] == ["NotFound", "NotFound"]
    assert told == ["library://read/text"]


async def test_isolated_prompt_says_everything_that_one_in_the_hall_says(hall: Toolhall) -> None:
    results = {what: await ask(hall, "Library_said", "prompt", what=what) for what in MESSAGES}
    said = {what: (found.content, found.roles) for what, found in results.items() if what != "wrong"}
    assert said == {
        "text": ((Text("Hello."),), ("user",)),
        "message": ((Text("Hello."),), ("assistant",)),
        "mixed": ((Text("Hello."), Image(b"\xff"), Text("Ha.")), ("user", "assistant", "user")),
    }
    assert results["wrong"] == "BadOutput"


async def test_isolated_completion_runs_in_the_entered_worker_process(hall: Toolhall) -> None:
    found = await complete(hall, "resource", "library://read/{what}", "te", other="given")
    assert isinstance(found, Completion)
    assert found.values == ("te", "given", LOCAL.id, "True")
    assert isinstance(await complete(hall, "prompt", "Library_said"), Crashed)
