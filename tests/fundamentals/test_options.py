"""What can be said about a tool: title, icons, hints, tags, limits, level, version."""

import asyncio
import threading
from typing import Any

import pytest

from tests.harness.patience import patience
from toolhall import Annotations, Config, Icon, ToolhallError, tool
from toolhall.testing import Client


async def definition_of(function: Any) -> Any:
    async with Client(function) as client:
        (definition,) = await client.list_tools()
    return definition


async def test_title_and_description_options_are_published() -> None:
    @tool(title="Weather forecast", description="What the sky will do.")
    def forecast() -> None:
        """For programmers."""

    found = await definition_of(forecast)
    assert (found.title, found.description) == ("Weather forecast", "What the sky will do.")


async def test_icons_option_is_published() -> None:
    icon = Icon(src="https://example.org/a.png", mime_type="image/png", sizes=("48x48",), theme="dark")

    @tool(icons=[icon])
    def forecast() -> None: ...

    assert (await definition_of(forecast)).icons == (icon,)


@pytest.mark.parametrize(
    ("effect", "read_only", "destructive"), [("reads", True, None), ("writes", False, False), ("destroys", False, True)]
)
async def test_effect_sets_annotations(effect: Any, read_only: bool, destructive: bool | None) -> None:
    @tool(effect=effect)
    def act() -> None: ...

    found = await definition_of(act)
    assert found.effect == effect
    assert found.annotations == Annotations(read_only=read_only, destructive=destructive)


async def test_annotations_option_is_published() -> None:
    @tool(annotations=Annotations(title="Look", idempotent=True, open_world=False))
    def look() -> None: ...

    assert (await definition_of(look)).annotations == Annotations(title="Look", idempotent=True, open_world=False)


async def test_annotations_override_the_effect() -> None:
    @tool(effect="writes", annotations=Annotations(destructive=True, idempotent=True))
    def act() -> None: ...

    assert (await definition_of(act)).annotations == Annotations(read_only=False, destructive=True, idempotent=True)


async def test_without_effect_there_are_no_annotations() -> None:
    @tool
    def act() -> None: ...

    assert (await definition_of(act)).annotations is None


async def test_tags_meta_and_version_options_are_published() -> None:
    @tool(tags=["weather", "europe"], meta={"example.org/owner": "sky"}, version="2.1.0-rc.1")
    def forecast() -> None: ...

    found = await definition_of(forecast)
    assert (found.tags, found.meta) == (("weather", "europe"), {"example.org/owner": "sky"})
    assert str(found.id) == "test_options.forecast@2.1.0-rc.1"


async def test_timeout_option_ends_a_slow_tool() -> None:
    ended = asyncio.Event()

    @tool(timeout=0.05)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Client(wait) as client:
        with pytest.raises(ToolhallError, match=r"the tool did not finish within 0\.05 seconds"):
            await client.call(wait)
    assert ended.is_set()


async def test_call_timeout_applies_to_tools_without_timeout() -> None:
    release = threading.Event()

    @tool
    def wait() -> None:
        release.wait(patience())

    async with Client(wait, config=Config(call_timeout=0.05)) as client:
        try:
            with pytest.raises(ToolhallError, match=r"within 0\.05 seconds"):
                await client.call(wait)
        finally:
            release.set()


@pytest.mark.parametrize("level", [None, 0, 1, 7])
async def test_level_up_to_seven_needs_no_person_locally(level: int | None) -> None:
    def act() -> str:
        return "done"

    marked = tool(act) if level is None else tool(level=level)(act)
    async with Client(marked) as client:
        assert await client.call(marked) == "done"


@pytest.mark.parametrize("level", [8, 9, 10])
async def test_level_from_eight_needs_a_person(level: int) -> None:
    done: list[int] = []

    @tool(level=level)
    def act() -> str:
        done.append(level)
        return "done"

    async with Client(act, approves=False) as client:
        with pytest.raises(ToolhallError, match=f"level {level} needs a person's yes, and the person asked said no"):
            await client.call(act)
    assert not done
    async with Client(act, approves=True) as client:
        assert await client.call(act) == "done"


async def test_invalid_arguments_are_refused_before_asking_a_person() -> None:
    @tool(level=10)
    def act(n: int) -> None: ...

    async with Client(act, approves=False) as client:
        with pytest.raises(ToolhallError, match='/n: the value is not of type "integer"'):
            await client.call_named("act", {"n": "one"})


async def test_rate_limit_is_per_caller() -> None:
    @tool
    async def act() -> None: ...

    async with Client(act, config=Config(calls_per_second=0.001, call_burst=3)) as client:
        for _ in range(3):
            await client.call(act)
        with pytest.raises(ToolhallError, match="too many calls: try again in"):
            await client.call(act)


async def test_result_size_is_limited() -> None:
    @tool
    async def much() -> list[str]:
        return ["x" * 100]

    async with Client(much, config=Config(max_output_bytes=103)) as client:
        with pytest.raises(ToolhallError, match="the tool returned more than 103 bytes"):
            await client.call(much)
    async with Client(much, config=Config(max_output_bytes=104)) as client:
        assert await client.call(much) == ["x" * 100]


async def test_tool_list_is_paginated() -> None:
    functions = []
    for number in range(5):

        def act() -> None: ...

        functions.append(tool(name=f"act_{number}")(act))
    async with Client(*functions, config=Config(page_size=2)) as client:
        assert [each.name for each in await client.list_tools()] == [f"act_{number}" for number in range(5)]
