"""Prompts and completion on the wire, in each revision and over each transport."""

import pytest

from tests.conformance.test_wire_resources import ACCEPT, error, pages, shop, shop_on_stdio, talk
from tests.harness.http_client import Message
from tests.harness.mcp_client import McpClient, stateless_mcp_client
from tests.harness.mcp_messages import JUNE
from tests.harness.server_process import ServerProcess

__all__ = ["shop", "shop_on_stdio", "talk"]  # fixtures
LETTER = {"type": "ref/prompt", "name": "Shop_letter"}
ORDER = {"type": "ref/resource", "uri": "shop://orders/{number}"}


async def complete(talk: McpClient, ref: Message, argument: str, typed: str, **context: Message) -> Message:
    """The completion of an argument."""
    params: Message = {"ref": ref, "argument": {"name": argument, "value": typed}, **context}
    found: Message = (await talk.ask("completion/complete", params)).result["completion"]
    return found


@pytest.mark.requirement("PR-1", "PR-2", "IC-1", "CA-1")
async def test_prompts_list_has_names_descriptions_and_arguments(talk: McpClient) -> None:
    listed = await pages(talk, "prompts/list", "prompts")
    assert [each["name"] for each in listed] == ["Shop_letter", "Shop_picture", "Shop_asking", "Shop_failing"]
    letter = listed[0]
    assert (letter["title"], letter["description"]) == ("Write a letter", "Drafts a letter for one order.")
    assert letter["arguments"] == [
        {"name": "number", "description": "The order", "required": True},
        {"name": "tone"},
        {"name": "urgent"},
    ]
    assert ("icons" in letter) == (talk.revision != JUNE)
    assert "arguments" not in listed[1]


@pytest.mark.requirement("PR-3", "PR-4")
async def test_prompt_is_written_with_its_arguments_as_values_of_their_types(talk: McpClient) -> None:
    arguments = {"number": "17", "tone": "stern", "urgent": "true"}
    result = (await talk.ask("prompts/get", {"name": "Shop_letter", "arguments": arguments})).result
    assert result["description"] == "Drafts a letter for one order."
    assert [(each["role"], each["content"]) for each in result["messages"]] == [
        ("user", {"type": "resource_link", "uri": "shop://orders/17", "name": "order"}),
        ("assistant", {"type": "text", "text": "Which tone?"}),
        ("user", {"type": "text", "text": "stern, now"}),
    ]
    assert not {"ttlMs", "cacheScope"} & result.keys(), "no hints: these are for lists and reads"
    picture = (await talk.ask("prompts/get", {"name": "Shop_picture"})).result
    assert picture["messages"][0]["content"]["type"] == "image"


@pytest.mark.requirement("PR-5")
@pytest.mark.parametrize(
    "params",
    [
        {"name": "Shop_nothing"},
        {"name": "Shop_letter"},
        {"name": "Shop_letter", "arguments": {"number": "seventeen"}},
        {"name": "Shop_letter", "arguments": {"number": "17", "tone": "rude"}},
        {"name": "Shop_letter", "arguments": {"number": "17", "colour": "red"}},
        {"name": "Shop_letter", "arguments": {"number": 17}},
        {"name": "Shop_letter", "arguments": ["17"]},
        {"name": 7},
        {},
    ],
)
async def test_unknown_prompt_and_wrong_arguments_are_invalid_params(talk: McpClient, params: Message) -> None:
    assert (await error(talk, "prompts/get", params))["code"] == -32602


@pytest.mark.requirement("PR-5")
async def test_failure_of_a_prompt_is_an_error_with_the_authors_words(talk: McpClient) -> None:
    found = await error(talk, "prompts/get", {"name": "Shop_failing"})
    assert (found["code"], found["message"]) == (-32603, "no letter today")


@pytest.mark.requirement("PR-6")
async def test_prompt_asks_before_it_is_written(talk: McpClient, shop: ServerProcess) -> None:
    heard = await talk.ask_in_rounds("prompts/get", {"name": "Shop_asking"}, respond=lambda _: ACCEPT)
    assert heard.result["messages"][0]["content"]["text"] == "For Ada."
    if talk.modern:
        async with stateless_mcp_client(shop.origin) as http:
            reply = await http.modern("prompts/get", {"name": "Shop_asking"}, headers={"Mcp-Name": "Shop_letter"})
            assert (reply.status, reply.answer["error"]["code"]) == (400, -32020)


@pytest.mark.requirement("CO-2", "CO-3")
async def test_completion_returns_the_best_hundred_and_counts_all(talk: McpClient) -> None:
    many = await complete(talk, ORDER, "number", "")
    assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 250, True)
    few = await complete(talk, ORDER, "number", "24")
    assert few == {
        "values": ["24", "240", "241", "242", "243", "244", "245", "246", "247", "248", "249"],
        "total": 11,
        "hasMore": False,
    }
    given = await complete(talk, ORDER, "number", "249", context={"arguments": {"suffix": "x"}})
    assert given["values"] == ["249x"], "the function was given the other arguments"


@pytest.mark.requirement("CO-2", "CO-6")
async def test_completion_filters_choices_and_is_empty_where_there_is_none(talk: McpClient) -> None:
    assert (await complete(talk, LETTER, "number", "1"))["values"] == ["17", "18"], "kept by what was typed"
    assert (await complete(talk, LETTER, "tone", "ST"))["values"] == ["stern"]
    assert (await complete(talk, LETTER, "urgent", ""))["values"] == ["true", "false"]
    orders = {"type": "ref/resource", "uri": "shop://orders{?status,limit}"}
    assert (await complete(talk, orders, "status", ""))["values"] == ["open", "shut"]
    assert await complete(talk, orders, "limit", "1") == {"values": [], "total": 0, "hasMore": False}


@pytest.mark.requirement("CO-4")
@pytest.mark.parametrize(
    "params",
    [
        {"ref": {"type": "ref/prompt", "name": "Shop_nothing"}, "argument": {"name": "number", "value": ""}},
        {"ref": LETTER, "argument": {"name": "colour", "value": ""}},
        {"ref": {"type": "ref/tool", "name": "Shop_touch"}, "argument": {"name": "uri", "value": ""}},
        {"ref": LETTER, "argument": {"name": "number"}},
        {"ref": LETTER, "argument": {"name": "number", "value": 1}},
        {"ref": LETTER, "argument": {"name": "number", "value": ""}, "context": {"arguments": {"number": 1}}},
        {"ref": LETTER},
        {},
    ],
)
async def test_wrong_references_and_arguments_of_a_completion_are_invalid_params(
    talk: McpClient, params: Message
) -> None:
    assert (await error(talk, "completion/complete", params))["code"] == -32602


@pytest.mark.requirement("CO-4")
async def test_completion_of_an_unknown_template_is_not_found(talk: McpClient) -> None:
    ref = {"type": "ref/resource", "uri": "shop://nothing/{number}"}
    found = await error(talk, "completion/complete", {"ref": ref, "argument": {"name": "number", "value": ""}})
    assert found["code"] == -32602


@pytest.mark.requirement("LG-1", "LG-2")
async def test_prompt_logs_while_it_is_written(talk: McpClient) -> None:
    await talk.set_level("info")
    heard = await talk.ask("prompts/get", {"name": "Shop_picture"})
    assert [each["params"]["data"] for each in heard.notices] == ["writing"]
