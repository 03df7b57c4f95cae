"""One contract for every runner: resources, prompts and completions are the same wherever their functions run."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.harness.http_client import Message
from tests.harness.mcp_client import HttpMcpClient
from tests.harness.mcp_messages import MODERN
from tests.harness.patience import patience
from tests.interfaces.running.reach import Reach, reached
from tests.interfaces.running.seeing import always
from tests.interfaces.running.ways import WAYS, Place

NOVEMBER = "2025-11-25"
BOOKS = "library://books/{number}{?lang}"
both_revisions = pytest.mark.parametrize("revision", [NOVEMBER, MODERN])


@pytest.fixture(scope="module", params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A hall, and what runs behind it, one for all tests of a way."""
    with WAYS[request.param].place(tmp_path_factory.mktemp("way")) as place:
        yield place


@pytest.fixture
async def hall(place: Place) -> AsyncIterator[Reach]:
    async with reached(place) as reach:
        yield reach


async def listed(talk: HttpMcpClient, method: str, member: str) -> dict[str, Message]:
    """What of the library is listed, by name, without what only the list itself needs."""
    found = (await talk.ask(method)).result[member]
    return {each["name"]: each for each in found if each["name"].startswith("Library")}


async def read(talk: HttpMcpClient, uri: str, **more: Any) -> list[Message]:
    """What a URI means."""
    contents: list[Message] = (await talk.ask("resources/read", {"uri": uri}, **more)).result["contents"]
    return contents


async def completed(talk: HttpMcpClient, ref: Message, name: str, typed: str, **given: str) -> Message:
    """The completion of an argument."""
    context = {"context": {"arguments": given}} if given else {}
    params = {"ref": ref, "argument": {"name": name, "value": typed}, **context}
    completion: Message = (await talk.ask("completion/complete", params)).result["completion"]
    return completion


@both_revisions
async def test_runner_resources_templates_and_prompts_are_listed(hall: Reach, revision: str) -> None:
    async with hall.talk(revision) as talk:
        resources = await listed(talk, "resources/list", "resources")
        templates = await listed(talk, "resources/templates/list", "resourceTemplates")
        prompts = await listed(talk, "prompts/list", "prompts")
    shown = {each["uri"]: (each.get("mimeType"), each["description"]) for each in resources.values()}
    assert shown == {
        "library://rules": ("text/markdown", "The rules of the house."),
        "library://seal": ("image/png", "The seal, in a few bytes that are no text."),
        "library://broken": ("text/plain", "Raise what nobody may read."),
    }
    assert {each["uriTemplate"] for each in templates.values()} == {
        BOOKS,
        "library://shelves/{shelf}",
        "library://desk/{of}",
    }
    arguments = {name: [each["name"] for each in said.get("arguments", [])] for name, said in prompts.items()}
    assert arguments == {"Library_review": ["number", "tone"], "Library_greeting": []}


@both_revisions
async def test_runner_text_bytes_values_and_several_contents_are_read(hall: Reach, revision: str) -> None:
    async with hall.talk(revision) as talk:
        assert await read(talk, "library://rules") == [
            {"uri": "library://rules", "mimeType": "text/markdown", "text": "# Be quiet\n"}
        ]
        assert await read(talk, "library://seal") == [
            {"uri": "library://seal", "mimeType": "image/png", "blob": "AP+J"}
        ]
        (book,) = await read(talk, "library://books/7?lang=de")
        first, second = await read(talk, "library://shelves/A%20b")
    assert (book["uri"], book["mimeType"]) == ("library://books/7?lang=de", "application/json")
    assert json.loads(book["text"]) == {"number": 7, "lang": "de"}
    assert first == {"uri": "library://A b/1", "mimeType": "text/plain", "text": "one"}
    assert (second["uri"], second["blob"], second["_meta"]["example.com/page"]) == ("library://A b/2", "/g==", 2)


@both_revisions
@pytest.mark.parametrize("uri", ["library://books/100", "library://books", "library://nothing"])
async def test_runner_resource_that_does_not_exist_is_not_found(hall: Reach, revision: str, uri: str) -> None:
    """What its function does not find is answered like what no function serves."""
    async with hall.talk(revision) as talk:
        error = (await talk.ask("resources/read", {"uri": uri})).message["error"]
    assert (error["code"], error["data"]["uri"]) == (-32602 if talk.modern else -32002, uri)


async def test_runner_variable_of_another_type_is_refused(hall: Reach) -> None:
    async with hall.talk(MODERN) as talk:
        error = (await talk.ask("resources/read", {"uri": "library://books/seven"})).message["error"]
    assert error["code"] == -32602


async def test_runner_exception_while_reading_is_not_shown(hall: Reach) -> None:
    async with hall.talk(MODERN) as talk:
        message = (await talk.ask("resources/read", {"uri": "library://broken"})).message
    assert message["error"]["code"] == -32603
    assert "w0rd" not in json.dumps(message)
    assert any("w0rd-of-the-library" in log for log in hall.place.logged())


@both_revisions
async def test_runner_prompt_says_messages_with_roles(hall: Reach, revision: str) -> None:
    async with hall.talk(revision) as talk:
        params = {"name": "Library_review", "arguments": {"number": "7", "tone": "harsh"}}
        book, answer, last = (await talk.ask("prompts/get", params)).result["messages"]
        (greeting,) = (await talk.ask("prompts/get", {"name": "Library_greeting"})).result["messages"]
    carried = {"uri": "library://books/7", "mimeType": "application/json", "text": "{}"}
    assert (book["role"], book["content"]["resource"]) == ("user", carried)
    assert (answer["role"], answer["content"]["text"]) == ("assistant", "A harsh review of 8?")
    assert (last["role"], last["content"]["text"]) == ("user", "Yes.")
    assert (greeting["role"], greeting["content"]["text"]) == ("user", "Hello.")


async def test_runner_prompt_without_a_required_argument_is_refused(hall: Reach) -> None:
    async with hall.talk(MODERN) as talk:
        error = (await talk.ask("prompts/get", {"name": "Library_review"})).message["error"]
    assert error["code"] == -32602


@both_revisions
async def test_runner_arguments_are_completed(hall: Reach, revision: str) -> None:
    book, review = {"type": "ref/resource", "uri": BOOKS}, {"type": "ref/prompt", "name": "Library_review"}
    async with hall.talk(revision) as talk:
        assert await completed(talk, book, "number", "29") == {
            "values": ["29", "129", "229", *(f"{number}" for number in range(290, 300))],
            "total": 13,
            "hasMore": False,
        }
        many = await completed(talk, book, "number", "")
        assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 300, True)
        assert (await completed(talk, review, "number", "KI", tone="kind"))["values"] == ["kind 1", "kind 2"]
        assert (await completed(talk, review, "tone", "h"))["values"] == ["harsh"]
        assert (await completed(talk, book, "lang", "e"))["values"] == []


@both_revisions
async def test_runner_reading_may_ask_a_person(hall: Reach, revision: str) -> None:
    async with hall.talk(revision) as talk:
        params: Message = {"uri": "library://desk/Ada"}
        respond = always({"action": "accept", "content": {"name": "Bob"}})
        heard = (await talk.ask("resources/read", params, respond=respond)).result
        if talk.modern:
            answers = {key: respond(each) for key, each in heard["inputRequests"].items()}
            params |= {"inputResponses": answers, "requestState": heard["requestState"]}
            heard = (await talk.ask("resources/read", params)).result
    assert [each["text"] for each in heard["contents"]] == ["Ada: Bob"]


async def test_runner_changed_resource_is_told_to_subscribers(hall: Reach) -> None:
    """Of a call whose client hears of nothing else, and of one whose client hears of everything."""
    uri = "library://books/7"
    async with hall.talk(MODERN) as talk:
        filters = {"notifications": {"resourceSubscriptions": [uri]}}
        message = talk.request("subscriptions/listen", filters)
        async with talk.open(message) as stream, asyncio.timeout(patience()):
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            await hall.post("/tools/Library/lend", {"uri": "library://books/8"})
            await hall.post("/tools/Library/lend", {"uri": uri})
            assert (await stream.message())["params"]["uri"] == uri
            await talk.call("Library_lend", {"uri": "library://books/9"})
            await talk.call("Library_lend", {"uri": uri}, token="t")
            told = await stream.message()
    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", uri)
