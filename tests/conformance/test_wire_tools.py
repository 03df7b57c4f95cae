"""Tools as clients see them: listed in pages, called, answered by results or refused by errors."""

import asyncio
import base64
import json
import re

import jsonschema_rs
import pytest

from tests.conformance.judge import LEGACY, MODERN
from tests.conformance.probe import CANARY, PAGE_SIZE
from tests.conformance.serving import Served, served
from tests.conformance.talk import Heard, Talk, http_talk
from tests.conformance.wire import SERVER_KEY, Http, Message

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
BLOCKS = ["text", "image", "audio", "resource_link", "resource", "resource"]


def by_name(tools: list[Message]) -> dict[str, Message]:
    """The tools by their names."""
    return {tool["name"]: tool for tool in tools}


# --- the list ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-24", "M-17", "M-18", "M-19")
async def test_tools_list_pages_hold_every_tool_once_in_the_same_order(talk: Talk) -> None:
    pages: list[list[str]] = []
    hints: set[tuple[object, object]] = set()
    params: Message = {}
    while True:
        page = (await talk.ask("tools/list", params)).result
        pages.append([tool["name"] for tool in page["tools"]])
        hints.add((page.get("ttlMs"), page.get("cacheScope")))
        if "nextCursor" not in page:
            break
        assert isinstance(page["nextCursor"], str)
        params = {"cursor": page["nextCursor"]}
    assert [len(page) for page in pages[:-1]] == [PAGE_SIZE] * (len(pages) - 1)
    assert len(pages) > 2
    names = [name for page in pages for name in page]
    assert len(set(names)) == len(names)
    assert [tool["name"] for tool in await talk.tools()] == names
    assert len(hints) == 1, "every page says the same of its age"


@pytest.mark.requirement("M-17", "M-16")
async def test_tools_list_order_is_the_same_in_another_process() -> None:
    with served("probe.py") as first, served("probe.py") as second:
        async with http_talk(first.origin, MODERN) as one, http_talk(second.origin, MODERN) as two:
            assert await one.tools() == await two.tools()


@pytest.mark.requirement("L-24", "M-19")
async def test_tools_list_empty_cursor_is_the_first_page_and_unknown_cursor_is_refused(talk: Talk) -> None:
    first = (await talk.ask("tools/list")).result
    assert (await talk.ask("tools/list", {"cursor": ""})).result == first
    for wrong in (
        "nonsense",
        "ünï",
        base64.b64encode(b"nonsense").decode(),
        "a" * 5_000,
        base64.b64encode(b"5:").decode(),
    ):
        heard = await talk.ask("tools/list", {"cursor": wrong})
        assert "error" not in heard.answer or heard.error["code"] == -32602
    assert (await talk.ask("tools/list", {"cursor": "nonsense"})).error["code"] == -32602


@pytest.mark.requirement("L-24", "M-19")
async def test_tools_list_cursor_stays_valid_after_the_list_changed(talk: Talk) -> None:
    before = [tool["name"] for tool in await talk.tools()]
    cursor = (await talk.ask("tools/list")).result["nextCursor"]
    await talk.call("probe_toggle")
    page = (await talk.ask("tools/list", {"cursor": cursor})).result
    assert [tool["name"] for tool in page["tools"]] == before[PAGE_SIZE : 2 * PAGE_SIZE]
    await talk.call("probe_toggle")


@pytest.mark.requirement("M-18", "M-47")
async def test_lists_carry_ttl_and_cache_scope_in_the_newest_revision_only(talk: Talk) -> None:
    for method in ("tools/list", "server/discover"):
        if talk.modern:
            result = (await talk.ask(method)).result
            assert type(result["ttlMs"]) is int
            assert result["ttlMs"] >= 0
            assert result["cacheScope"] in ("public", "private")
            assert result["resultType"] == "complete"
    if not talk.modern:
        assert not {"ttlMs", "cacheScope", "resultType"} & (await talk.ask("tools/list")).result.keys()


@pytest.mark.requirement("L-25", "L-26", "M-20")
async def test_tools_list_every_tool_has_a_valid_name_and_an_object_input_schema(talk: Talk) -> None:
    tools = await talk.tools()
    assert len({tool["name"].casefold() for tool in tools}) == len(tools)
    for tool in tools:
        assert NAME.fullmatch(tool["name"])
        assert tool["inputSchema"]["type"] == "object"
        assert tool["description"]
        if "outputSchema" in tool and not talk.modern:
            assert tool["outputSchema"]["type"] == "object"


@pytest.mark.requirement("L-27", "M-13")
async def test_tools_list_every_schema_is_valid_in_its_dialect(talk: Talk) -> None:
    tools = by_name(await talk.tools())
    for tool in tools.values():
        for schema in (tool["inputSchema"], tool.get("outputSchema", True)):
            jsonschema_rs.meta.validate(schema)
            jsonschema_rs.validator_for(schema)
    assert tools["probe_number"]["inputSchema"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert tools["probe_draft07"]["inputSchema"]["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.requirement("L-25", "L-31", "M-20", "M-21")
async def test_tools_list_title_annotations_icons_and_meta_are_passed_on(talk: Talk) -> None:
    tool = by_name(await talk.tools())["probe_decorated"]
    assert tool["title"] == "Decorated"
    assert tool["annotations"] == {
        "title": "Hinted",
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert tool["_meta"]["com.example/mark"] == "kept"
    icons = [
        {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "light"},
        {"src": "data:image/png;base64,iVBORw0KGgo="},
    ]
    assert tool.get("icons") == (None if talk.revision == "2025-06-18" else icons)


@pytest.mark.requirement("L-31")
async def test_tools_list_annotations_that_were_not_declared_are_left_out(talk: Talk) -> None:
    tools = by_name(await talk.tools())
    assert tools["probe_number"]["annotations"] == {"readOnlyHint": True}
    assert tools["probe_guarded"]["annotations"] == {"readOnlyHint": False, "destructiveHint": True}


@pytest.mark.requirement("L-25", "M-20")
async def test_tools_list_output_schema_has_the_form_of_the_revision(talk: Talk) -> None:
    tools = by_name(await talk.tools())
    number, words, point = (tools[f"probe_{name}"]["outputSchema"] for name in ("number", "words", "point"))
    if talk.modern:
        assert number == {"type": "integer"}
        assert words["type"] == "array"
    else:
        assert number["properties"] == {"result": {"type": "integer"}}
        assert words["properties"]["result"]["type"] == "array"
    assert point["type"] == "object"
    assert "outputSchema" not in tools["probe_nothing"]


# --- calls ------------------------------------------------------------------------------------------------------------


def value(heard: Heard, talk: Talk) -> object:
    """The structured value, out of its wrapper where the revision needs one."""
    found = heard.result["structuredContent"]
    return found if talk.modern else found["result"]


@pytest.mark.requirement("L-28", "L-29", "M-22", "M-23")
async def test_tools_call_value_is_sent_as_structured_content_and_as_text(talk: Talk) -> None:
    heard = await talk.call("probe_point", {"x": 1})
    assert heard.result["structuredContent"] == {"x": 1, "y": 0}
    assert json.loads(heard.text) == {"x": 1, "y": 0}
    assert heard.result.get("isError", False) is False
    for tool, expected in (("probe_number", 42), ("probe_words", ["one", "two"]), ("probe_maybe", None)):
        heard = await talk.call(tool)
        assert value(heard, talk) == expected
        assert json.loads(heard.text) == expected


@pytest.mark.requirement("L-29", "M-23")
async def test_tools_call_structured_content_matches_the_output_schema(talk: Talk) -> None:
    tools = by_name(await talk.tools())
    calls: list[tuple[str, Message]] = [
        ("probe_point", {"x": 1, "y": -1}), ("probe_number", {}), ("probe_words", {}), ("probe_maybe", {}),
        ("probe_nonce", {"nonce": "n"}), ("probe_echo", {"value": {"a": [1, None]}}), ("probe_spun", {"key": "never"}),
    ]  # fmt: skip
    for name, arguments in calls[:-1]:
        result = (await talk.call(name, arguments)).result
        schema = tools[name].get("outputSchema", True)
        assert jsonschema_rs.is_valid(schema, result["structuredContent"]), name


@pytest.mark.requirement("L-28", "M-22")
async def test_tools_call_result_always_has_content(talk: Talk) -> None:
    heard = await talk.call("probe_nothing")
    assert heard.result["content"] == []
    assert "structuredContent" not in heard.result
    assert (await talk.ask("tools/call", {"name": "probe_number"})).text == "42", "arguments may be left out"
    assert (await talk.call("probe_number", {})).text == "42"


@pytest.mark.requirement("L-30", "M-22")
async def test_tools_call_content_block_of_every_type_is_encoded(talk: Talk) -> None:
    heard = await talk.call("probe_blocks")
    blocks = heard.result["content"]
    assert [block["type"] for block in blocks] == BLOCKS
    text, image, audio, link, embedded, blob = blocks
    notes = {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-07-28T12:00:00Z"}
    assert text == {"type": "text", "text": "text", "annotations": notes, "_meta": {"com.example/mark": 1}}
    assert (base64.b64decode(image["data"]), image["mimeType"], image["annotations"]) == (b"png", "image/png", notes)
    assert (base64.b64decode(audio["data"]), audio["mimeType"]) == (b"wav", "audio/wav")
    assert (link["uri"], link["name"], link["title"], link["size"]) == ("https://example.com/a", "a", "A", 3)
    assert embedded["resource"] == {"uri": "test://text", "mimeType": "text/plain", "text": "text"}
    assert base64.b64decode(blob["resource"]["blob"]) == b"bytes"
    assert heard.result["_meta"]["com.example/mark"] is True


@pytest.mark.requirement("M-6", "M-7")
async def test_results_carry_result_type_and_server_info_in_the_newest_revision_only(talk: Talk) -> None:
    calls = (
        "probe_number",
        "probe_nothing",
        "probe_fail",
        "probe_crash",
        "probe_blocks",
        "probe_liar",
    )
    results = [(await talk.call(tool)).result for tool in calls]
    results.append((await talk.ask("tools/list")).result)
    for result in results:
        assert ("resultType" in result) is talk.modern
        assert (SERVER_KEY in result.get("_meta", {})) is talk.modern
        if talk.modern:
            assert result["resultType"] == "complete"
            assert result["_meta"][SERVER_KEY]["name"]


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-32", "L-35", "M-24", "M-26")
async def test_tools_call_bad_arguments_are_an_error_result_with_every_problem(talk: Talk) -> None:
    wrong: list[Message] = [
        {},
        {"x": "one"},
        {"x": 1, "y": None},
        {"x": 1.5},
        {"x": 1, "z": 1},
        {"x": True},
        {"x": [1]},
    ]
    for arguments in wrong:
        heard = await talk.call("probe_point", arguments)
        assert heard.result["isError"] is True, arguments
        assert "input schema" in heard.text
        assert "structuredContent" not in heard.result
    heard = await talk.call("probe_point", {"x": "one", "y": "two", "secret": "hunter2"})
    assert all(place in heard.text for place in ("/x", "/y")), "all problems at once, each with its place"
    assert "hunter2" not in heard.text, "never the value"


@pytest.mark.requirement("L-27", "M-13", "L-35")
async def test_tools_call_arguments_are_validated_by_the_dialect_of_the_schema(talk: Talk) -> None:
    assert value(await talk.call("probe_draft07", {"pair": [2, "a"]}), talk) if talk.modern else True
    assert "isError" not in (await talk.call("probe_draft07", {"pair": [2, "a"]})).result
    for wrong in ([3, "a"], [2, 2]):
        assert (await talk.call("probe_draft07", {"pair": wrong})).result["isError"] is True


@pytest.mark.requirement("L-32", "M-24")
async def test_tools_call_name_that_does_not_match_exactly_is_refused(talk: Talk) -> None:
    for wrong in (
        "PROBE_NUMBER",
        "probe_number ",
        " probe_number",
        "probe_numbe",
        "probe_number\n",
        "",
        "ünï",
        "x" * 5_000,
    ):
        error = (await talk.ask("tools/call", {"name": wrong, "arguments": {}})).error
        assert error["code"] == -32602, wrong
        assert len(error["message"]) < 300


@pytest.mark.requirement("L-33", "M-24")
async def test_tools_call_tool_failure_is_an_error_result_with_its_message(talk: Talk) -> None:
    heard = await talk.call("probe_fail")
    assert heard.result["isError"] is True
    assert heard.text == "the city is not known; try another"


@pytest.mark.requirement("L-33", "L-35", "M-24", "M-26")
async def test_tools_call_exception_text_is_not_sent(talk: Talk) -> None:
    for tool in ("probe_crash", "probe_liar"):
        heard = await talk.call(tool)
        assert heard.result["isError"] is True
        assert CANARY not in json.dumps(heard.answer)
        assert "Traceback" not in heard.text
        assert "RuntimeError" not in heard.text
        assert "structuredContent" not in heard.result, "a value that breaks its promise is not sent"


@pytest.mark.requirement("L-35", "M-26")
async def test_tools_call_that_needs_approval_is_refused_without_it(talk: Talk) -> None:
    """Clients that can open a page for the person are sent there, the others read the link; on stdio there is none."""
    answer = (await talk.call("probe_guarded")).answer
    assert "done" not in json.dumps(answer)
    if "error" in answer:
        assert answer["error"]["code"] == -32042
    else:
        assert answer["result"].get("isError") or answer["result"]["resultType"] == "input_required"


@pytest.mark.requirement("L-35", "M-26")
async def test_tools_call_terminal_control_characters_are_removed(talk: Talk) -> None:
    heard = await talk.call("probe_escape")
    assert heard.text == "red text and  more"
    echoed = await talk.call("probe_echo", {"value": {"k\u001b[2J": "v\u0007\u009b31m"}})
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", json.dumps(echoed.answer, ensure_ascii=False))


@pytest.mark.requirement("L-10", "M-22")
async def test_tools_call_forty_at_once_each_get_their_own_result(probe: Served) -> None:
    for revision in (*LEGACY, MODERN):
        async with http_talk(probe.origin, revision) as talk:
            calls = [talk.call("probe_point", {"x": number, "y": number}) for number in range(40)]
            heard = await asyncio.gather(*calls)
        assert [each.result["structuredContent"]["x"] for each in heard] == list(range(40))


@pytest.mark.requirement("M-8")
async def test_error_codes_are_those_of_the_newest_revision(http: Http) -> None:
    replies = [
        await http.modern("no/such"),
        await http.modern("tools/call", {"name": "no_such"}),
        await http.modern("tools/call", {"name": "probe_ask"}),
        await http.modern("tools/call", {"name": "probe_visit"}),
        await http.modern("tools/list", {"cursor": "nonsense"}),
        await http.modern("tools/list", headers={"Mcp-Method": "other"}),
        await http.modern("tools/list", meta=None),
    ]
    codes = {reply.error["code"] for reply in replies}
    assert codes == {-32601, -32602, -32021, -32020}
