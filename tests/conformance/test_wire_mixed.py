"""All three revisions at once on one server, every request with the same id: nobody gets another's answer."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.conformance import judge
from tests.conformance.judge import MODERN, REVISIONS
from tests.conformance.serving import Served
from tests.conformance.talk import HttpTalk, StdioTalk, Talk, http_talk
from tests.conformance.wire import Message, modern_meta, request

EXCHANGES = 60


async def exchange(talk: Talk, number: int) -> tuple[object, ...]:
    """One call with the id 1: what came back, and under which token."""
    nonce = f"{talk.revision}-{number}"
    heard = await talk.call("probe_nonce", {"nonce": nonce}, id=1, token=nonce)
    tokens = [told["progressToken"] for told in heard.told("progress")]
    return heard.answer["id"], heard.result["structuredContent"]["nonce"], tokens, "resultType" in heard.result


@pytest.mark.requirement("M-1", "M-11", "J-3", "L-4")
async def test_calls_of_three_revisions_with_the_same_id_each_get_their_own_answer(probe: Served) -> None:
    async with AsyncExitStack() as stack:
        opened = [http_talk(probe.origin, REVISIONS[number % 3]) for number in range(EXCHANGES)]
        talks = [await stack.enter_async_context(talk) for talk in opened]
        heard = await asyncio.gather(*(exchange(talk, number) for number, talk in enumerate(talks)))
    for number, (talk, found) in enumerate(zip(talks, heard, strict=True)):
        nonce = f"{talk.revision}-{number}"
        assert found == (1, nonce, [nonce], talk.modern)


@pytest.mark.requirement("M-1", "M-11", "L-4")
async def test_http_connection_carries_all_three_revisions(probe: Served) -> None:
    async with http_talk(probe.origin, REVISIONS[0]) as june, http_talk(probe.origin, REVISIONS[1]) as november:
        modern = HttpTalk(june.http, REVISIONS[2], {})
        for number in range(10):
            for talk in (june, modern, november):
                found = await exchange(talk, number)
                assert found == (1, f"{talk.revision}-{number}", [f"{talk.revision}-{number}"], talk.modern)


@pytest.mark.requirement("M-1", "M-11")
@pytest.mark.parametrize("revision", REVISIONS[:2])
async def test_stdio_process_carries_a_session_and_modern_requests(stdio: StdioTalk) -> None:
    asked: dict[str, Message] = {}
    for number in range(EXCHANGES):
        era = "new" if number % 2 else "old"
        name = f"{era}-{number}"
        meta = modern_meta(progressToken=name) if number % 2 else {"progressToken": name}
        params = {"name": "probe_nonce", "arguments": {"nonce": name}, "_meta": meta}
        asked[name] = request("tools/call", params, name)
        await stdio.write(asked[name])
    answers: dict[str, Message] = {}
    progress: list[str] = []
    while len(answers) < EXCHANGES:
        message = await stdio.read_unchecked()
        if "method" in message:
            progress.append(message["params"]["progressToken"])
        else:
            answers[message["id"]] = message
    for name, message in answers.items():
        judge.check(message, MODERN if name.startswith("new") else stdio.revision, "tools/call")
        assert message["result"]["structuredContent"] == {"nonce": name}
    assert sorted(progress) == sorted(asked)
