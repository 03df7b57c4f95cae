"""Standard input and output: lines, nothing but messages on them, and an end when the input ends."""

import asyncio
import json

import pytest

from tests.conformance.judge import LEGACY, MODERN, REVISIONS
from tests.conformance.talk import Line, StdioTalk, own_line, stdio_process, stdio_talk
from tests.conformance.wire import WAIT, modern_meta, notification, request


@pytest.mark.requirement("L-6", "M-37")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_stdio_output_holds_only_messages_when_a_tool_prints(stdio: StdioTalk) -> None:
    for _ in range(3):
        heard = await stdio.call("probe_shout")  # a line that is no message would fail to be read
        assert heard.text == "line one\nline two\r\nline three\u2028line four"
    assert (await stdio.call("probe_number")).text == "42"


@pytest.mark.requirement("L-6", "M-37")
@pytest.mark.parametrize("revision", [LEGACY[1], MODERN])
async def test_stdio_message_of_any_length_is_one_line(stdio: StdioTalk) -> None:
    text = "line\n" * 100_000
    heard = await stdio.call("probe_echo", {"value": text})
    assert json.loads(heard.text) == text if heard.text.startswith('"') else heard.text == text


@pytest.mark.requirement("L-6", "M-37")
async def test_stdio_input_in_pieces_together_or_with_blank_lines_is_read(stdio: StdioTalk) -> None:
    messages = [
        json.dumps(stdio.request("tools/call", {"name": "probe_number"}, id=number)).encode() for number in (1, 2, 3)
    ]
    stdio.line.input.write(messages[0][:20])
    await stdio.line.input.drain()
    stdio.line.input.write(messages[0][20:] + b"\n\n  \n" + messages[1] + b"\r\n" + messages[2] + b"\n")
    asked = request("tools/call")
    answers = [await stdio.read(asked) for _ in range(3)]
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3]


@pytest.mark.requirement("M-37", "M-9")
async def test_stdio_newest_revision_elicitation_is_a_result_and_no_request(stdio: StdioTalk) -> None:
    heard = await stdio.call("probe_ask")
    assert heard.questions == []
    assert heard.result["resultType"] == "input_required"


@pytest.mark.requirement("L-6", "M-37")
@pytest.mark.parametrize("revision", [LEGACY[0], MODERN])
async def test_stdio_server_exits_when_its_input_ends(revision: str) -> None:
    async with stdio_process("probe.py") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        talk = StdioTalk(Line(process.stdout, process.stdin), revision, {})
        if talk.modern:
            assert (await talk.call("probe_number")).text == "42"
        else:
            await talk.start()
        process.stdin.close()
        async with asyncio.timeout(WAIT):
            assert await process.stdout.read() == b""
            assert await process.wait() == 0


@pytest.mark.requirement("M-37")
async def test_stdio_requests_before_the_end_of_input_are_answered() -> None:
    async with own_line("probe.py") as line:
        talk = await stdio_talk(line, MODERN)
        asked = [
            talk.request("tools/call", {"name": "probe_nonce", "arguments": {"nonce": "n"}}, id=n) for n in range(20)
        ]
        for message in asked:
            await talk.write(message)
        line.input.close()
        assert {(await talk.read(asked[0]))["id"] for _ in asked} == set(range(20))


@pytest.mark.requirement("L-6", "M-37", "L-35")
async def test_stdio_line_above_the_size_limit_is_refused_and_the_next_one_read(stdio: StdioTalk) -> None:
    for size in (1_500_000, 9_000_000):
        await stdio.write(notification("x", {"_meta": modern_meta(), "pad": "x" * size}))
        assert (await stdio.read())["error"]["code"] == -32600
        assert (await stdio.call("probe_number")).text == "42"


@pytest.mark.requirement("M-37", "M-22")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_stdio_responses_come_in_the_order_of_completion(stdio: StdioTalk) -> None:
    hold = stdio.request(
        "tools/call", {"name": "probe_hold", "arguments": {"key": f"order-{stdio.revision}"}}, id="slow"
    )
    await stdio.write(hold)
    assert (await stdio.call("probe_number", id="quick")).text == "42"
    released = stdio.request(
        "tools/call", {"name": "probe_release", "arguments": {"key": f"order-{stdio.revision}"}}, id="release"
    )
    await stdio.write(released)
    answers = {answer["id"]: answer for answer in [await stdio.read(hold), await stdio.read(hold)]}
    assert answers["slow"]["result"]["structuredContent"] == {"fate": "released"}


async def test_stdio_log_level_of_one_modern_request_does_not_apply_to_the_next(stdio: StdioTalk) -> None:
    """Terms come with each request: the level of one is not the level of the next."""
    await stdio.set_level("debug")
    loud = await stdio.call("probe_logs")
    stdio.capabilities = {}
    quiet = await stdio.exchange(request("tools/call", {"name": "probe_logs", "_meta": modern_meta()}, "q"))
    assert (len(loud.notices), len(quiet.notices)) == (8, 0)
