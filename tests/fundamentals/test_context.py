"""The context: the line from a running tool to whoever called it."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Literal

import pytest

from toolhall import (
    Answered,
    Context,
    Filled,
    Form,
    Question,
    Root,
    Rooted,
    Roots,
    Sample,
    Sampled,
    ToolhallError,
    Visit,
    tool,
)
from toolhall.model.caller import Caller
from toolhall.model.messages import LogEvent, ProgressEvent
from toolhall.testing import Client


async def test_context_is_not_in_the_schema() -> None:
    @tool
    async def greet(ctx: Context, name: str) -> str:
        return f"hello {name}"

    async with Client(greet) as client:
        (definition,) = await client.list_tools()
        assert list(definition.input["properties"]) == ["name"]
        assert await client.call(greet, name="Ada") == "hello Ada"


async def test_progress_reaches_the_caller() -> None:
    @tool
    async def copy(ctx: Context) -> None:
        ctx.progress(1, 2, "half way")
        ctx.progress(2, 2)

    async with Client(copy) as client:
        await client.call(copy)
    assert client.events == [ProgressEvent(1, 2, "half way"), ProgressEvent(2, 2, None)]


async def test_log_has_level_and_tool() -> None:
    @tool
    async def look(ctx: Context) -> None:
        ctx.log("looking")
        ctx.log({"found": 0}, "warning")

    async with Client(look) as client:
        await client.call(look)
    assert client.events == [LogEvent("info", "looking", "look"), LogEvent("warning", {"found": 0}, "look")]


async def test_events_of_a_sync_tool_reach_the_caller() -> None:
    @tool
    def copy(ctx: Context) -> None:
        ctx.progress(1, 1)

    async with Client(copy) as client:
        await client.call(copy)
    assert client.events == [ProgressEvent(1, 1, None)]


async def test_context_has_the_caller() -> None:
    @tool
    async def who(ctx: Context) -> str:
        return ctx.caller.id

    async with Client(who, caller=Caller("ada", local=True)) as client:
        assert await client.call(who) == "ada"


@dataclass
class Order:
    size: Literal["small", "large"]
    quantity: int = 1


@tool
async def order(ctx: Context) -> str:
    reply = await ctx.ask("Which size?", Order)
    return f"{reply.value.quantity} {reply.value.size}" if reply.accepted else reply.action


def filled(_: str, question: Question) -> Answered:
    assert isinstance(question, Form)
    assert question.message == "Which size?"
    assert question.schema["properties"]["size"] == {"type": "string", "enum": ["large", "small"]}
    assert question.schema["required"] == ["size"]
    return Filled("accept", {"size": "large", "quantity": 2})


async def test_ask_returns_the_filled_form() -> None:
    async with Client(order, answers=filled) as client:
        assert await client.call(order) == "2 large"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_ask_declined_is_not_accepted(action: Literal["decline", "cancel"]) -> None:
    async with Client(order, answers=lambda _, __: Filled(action)) as client:
        assert await client.call(order) == action


async def test_ask_invalid_reply_is_refused() -> None:
    async with Client(order, answers=lambda _, __: Filled("accept", {"size": "gigantic"})) as client:
        with pytest.raises(ToolhallError, match="the reply does not match the form") as caught:
            await client.call(order)
    assert "gigantic" not in str(caught.value)


async def test_ask_reply_value_of_a_declined_form_raises_value_error() -> None:
    @tool
    async def careless(ctx: Context) -> str:
        reply = await ctx.ask("Which size?", Order)
        with pytest.raises(ValueError, match=r"the person chose to decline; check \.accepted first"):
            _ = reply.value
        return "checked"

    async with Client(careless, answers=lambda _, __: Filled("decline")) as client:
        assert await client.call(careless) == "checked"


async def test_ask_with_a_json_schema_returns_the_filled_values() -> None:
    schema = {"type": "object", "properties": {"email": {"type": "string", "format": "email"}}}

    @tool
    async def subscribe(ctx: Context) -> str:
        reply = await ctx.ask("Your address?", schema)
        return str(reply.value["email"])

    def answer(_: str, question: Question) -> Answered:
        assert question == Form("Your address?", schema)
        return Filled("accept", {"email": "ada@example.org"})

    async with Client(subscribe, answers=answer) as client:
        assert await client.call(subscribe) == "ada@example.org"


@pytest.mark.requirement("EL-1")
async def test_ask_nested_form_is_refused() -> None:
    @dataclass
    class Nested:
        order: Order

    @tool
    async def nested(ctx: Context) -> str:
        with pytest.raises(TypeError, match="field 'order' cannot be shown in a form"):
            await ctx.ask("All of it?", Nested)
        return "refused"

    async with Client(nested, answers=lambda _, __: Filled("decline")) as client:
        assert await client.call(nested) == "refused"


async def test_question_keys_are_numbered_in_order_unless_given() -> None:
    keys: list[str] = []

    @tool
    async def several(ctx: Context) -> None:
        await ctx.ask("First?", Order)
        await ctx.ask("Second?", Order, key="mine")
        await ctx.roots()

    def answer(key: str, question: Question) -> Answered:
        keys.append(key)
        return Rooted(()) if isinstance(question, Roots) else Filled("decline")

    async with Client(several, answers=answer) as client:
        await client.call(several)
    assert keys == ["form_1", "mine", "roots_3"]


@pytest.mark.parametrize(("action", "agreed"), [("accept", True), ("decline", False)])
async def test_visit_sends_the_person_to_a_page(action: Literal["accept", "decline"], agreed: bool) -> None:
    @tool
    async def connect(ctx: Context) -> bool:
        return await ctx.visit("Please sign in", "https://example.org/sign-in", key="sign_in")

    def answer(_: str, question: Question) -> Answered:
        assert question == Visit("Please sign in", "https://example.org/sign-in", "sign_in")
        return Filled(action)

    async with Client(connect, answers=answer) as client:
        assert await client.call(connect) is agreed


async def test_sample_uses_the_clients_model() -> None:
    @tool
    async def summarise(ctx: Context) -> str:
        return (await ctx.sample("Summarise this", max_tokens=50)).text

    def answer(_: str, question: Question) -> Answered:
        assert isinstance(question, Sample)
        assert question.max_tokens == 50
        assert question.messages == ({"role": "user", "content": {"type": "text", "text": "Summarise this"}},)
        return Sampled("assistant", {"type": "text", "text": "Short."}, "some-model")

    async with Client(summarise, answers=answer) as client:
        assert await client.call(summarise) == "Short."


async def test_roots_lists_the_clients_folders() -> None:
    @tool
    async def folders(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.roots()]

    async with Client(folders, answers=lambda _, __: Rooted((Root("file:///home"),))) as client:
        assert await client.call(folders) == ["file:///home"]


async def test_ask_all_asks_several_questions() -> None:
    @tool
    async def both(ctx: Context) -> list[str]:
        answers = await ctx.ask_all({"where": Roots(), "say": Sample(messages=(), max_tokens=1)})
        return sorted(f"{key}: {type(answer).__name__}" for key, answer in answers.items())

    def answer(_: str, question: Question) -> Answered:
        return Rooted(()) if isinstance(question, Roots) else Sampled("assistant", [], "some-model")

    async with Client(both, answers=answer) as client:
        assert await client.call(both) == ["say: Sampled", "where: Rooted"]


async def test_can_reports_client_features() -> None:
    @tool
    async def able(ctx: Context) -> bool:
        return ctx.can("elicitation")

    async with Client(able) as client:
        assert await client.call(able) is False
    async with Client(able, answers=lambda _, __: Filled("decline")) as client:
        assert await client.call(able) is True


async def test_ask_unsupported_by_the_client_ends_the_call() -> None:
    async with Client(order) as client:
        with pytest.raises(ToolhallError, match="this tool needs a client that supports elicitation"):
            await client.call(order)


async def test_cancelled_is_set_for_a_sync_tool() -> None:
    started, stopped = threading.Event(), threading.Event()

    @tool
    def dig(ctx: Context) -> None:
        started.set()
        pause = threading.Event()
        for _ in range(1000):
            if ctx.cancelled:
                stopped.set()
                return
            pause.wait(0.01)

    async with Client(dig) as client:
        call = asyncio.create_task(client.call(dig))
        assert await asyncio.to_thread(started.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(stopped.wait, 10)


async def test_context_without_client_does_nothing() -> None:
    ctx = Context()
    ctx.progress(1, 2, "nobody hears")
    ctx.log("nobody reads")
    await ctx.detach()
    reply = await ctx.ask("Anybody?", Order)
    assert (reply.accepted, reply.action) == (False, "cancel")
    assert await ctx.visit("Anybody?", "https://example.org", key="visit") is False
    assert (await ctx.sample("Anybody?")).text == ""
    assert await ctx.roots() == ()
    assert not ctx.can("elicitation")
    assert not ctx.cancelled
    assert ctx.caller.local


async def test_tool_can_be_called_directly_with_an_empty_context() -> None:
    assert await order(Context()) == "cancel"


async def test_need_refuses_clients_without_the_feature() -> None:
    @tool
    async def picky(ctx: Context) -> str:
        ctx.need("sampling")
        return "fine"

    async with Client(picky) as client:
        with pytest.raises(ToolhallError, match="sampling"):
            await client.call(picky)
    assert await picky(Context()) == "fine"
