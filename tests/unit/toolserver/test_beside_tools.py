"""Resources, prompts and completions in a tool server: what is declared, and what a hall is answered."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.toolserver.handler_harness import HandlerHarness, open_handler
from toolhall import Context, Message, Resource, Text, Toolkit, prompt, resource, tool


class Library(Toolkit, version="1.0.0"):
    """Books, and letters about them."""

    @resource("library://books/{number}{?lang}", fresh=60)
    async def book(self, number: int, lang: str = "en") -> dict[str, Any] | None:
        """One book."""
        return {"number": number, "lang": lang} if number < 100 else None

    @book.complete("number")
    async def numbers(self, typed: str) -> list[str]:
        return [typed, "chosen by itself"]

    @book.complete("lang")
    def languages(self, given: Mapping[str, str]) -> list[str]:
        return ["de", f"den {given['number']}", "en"]

    @resource("library://seal", mime_type="image/png", secrets=["KEY"])
    def seal(self, ctx: Context) -> bytes:
        """Bytes, of a length that is secret."""
        return b"\xff" * len(ctx.secret("KEY"))

    @resource("library://shelf")
    async def shelf(self) -> list[Resource]:
        """Two books."""
        return [Resource(uri="library://a", content="a"), Resource(uri="library://b", content=b"\0")]

    @resource("library://files{/path*}")
    async def file(self, path: list[str]) -> str:
        """Where it lies."""
        return "|".join(path)

    @prompt
    async def letter(self, ctx: Context, number: int) -> list[Any]:
        """Write a letter."""
        ctx.progress(1)
        return ["Dear reader,", Message.assistant("To whom?"), Text(str(number))]

    @prompt
    async def broken(self) -> Any:
        """Say what no prompt can say."""
        return {"role": "system"}

    @tool
    async def lend(self, ctx: Context, times: int = 1) -> None:
        """Tell of changes."""
        for _ in range(times):
            ctx.changed("library://books/7")


def reading(uri: str) -> dict[str, Any]:
    return {"tool": "Library", "kind": "resource", "uri": uri}


SAYING = {"tool": "Library", "kind": "prompt"}


def resources(end: dict[str, Any]) -> list[dict[str, Any]]:
    assert end["error"] is None, end
    assert {block["type"] for block in end["content"]} == {"resource"}
    return [block["resource"] for block in end["content"]]


async def completions(hall: HandlerHarness, argument: str, typed: str) -> Any:
    asked = {"typed": typed, "given": {"number": "7"}}
    return (await hall.result("book", asked, tool="Library", kind="resource", complete=argument))["result"]


async def test_handler_declares_resources_and_prompts_as_methods() -> None:
    async with open_handler(Library) as hall:
        (declaration,) = hall.handler.declarations
    methods = {each["name"]: each for each in declaration["tool"]["capabilities"]["methods"]}
    assert methods["book"]["dev.toolhall/resource"] == {
        "uri": "library://books/{number}{?lang}",
        "mime_type": "application/json",
        "fresh": 60.0,
        "completes": ("number", "lang"),
    }
    assert methods["letter"]["dev.toolhall/prompt"] == {}
    assert "effect" not in methods["book"].get("dev.toolhall/tool", {})
    assert methods["lend"].keys() == {"name", "description", "params", "dev.toolhall/tool"}


async def test_handler_reads_values_bytes_and_several_contents() -> None:
    async with open_handler(Library) as hall:
        book = await hall.call("book", {"number": 7, "lang": "de"}, **reading("library://books/7?lang=de"))
        context = {"secrets": {"KEY": "k3y-0"}}
        seal = await hall.call("seal", **reading("library://seal"), context=context)
        shelf = await hall.call("shelf", **reading("library://shelf"))
        file = await hall.call("file", {"path": ["a", "b"]}, **reading("library://files/a/b"))
    assert resources(file) == [{"uri": "library://files/a/b", "mimeType": "text/plain", "text": "a|b"}]
    text = '{"number":7,"lang":"de"}'
    assert resources(book) == [{"uri": "library://books/7?lang=de", "mimeType": "application/json", "text": text}]
    assert resources(seal) == [{"uri": "library://seal", "mimeType": "image/png", "blob": "//////8="}]
    assert resources(shelf) == [{"uri": "library://a", "text": "a"}, {"uri": "library://b", "blob": "AA=="}]


async def test_handler_says_nothing_for_a_resource_that_does_not_exist() -> None:
    async with open_handler(Library) as hall:
        end = await hall.call("book", {"number": 100}, **reading("library://books/100"))
    assert (end["error"], end["nothing"]) == (None, True)
    assert "content" not in end


async def test_handler_says_messages_with_roles_after_events() -> None:
    async with open_handler(Library) as hall:
        end = await hall.call("letter", {"number": 7}, **SAYING)
        assert [each["type"] for each in hall.heard()] == ["tool_progress"]
        error = await hall.error("broken", **SAYING)
    assert end["roles"] == ["user", "assistant", "user"]
    assert [block["text"] for block in end["content"]] == ["Dear reader,", "To whom?", "7"]
    assert error["code"] == "BAD_OUTPUT"


async def test_handler_completes_arguments() -> None:
    async with open_handler(Library) as hall:
        assert await completions(hall, "number", "zz") == ["zz", "chosen by itself"]
        assert await completions(hall, "lang", "D") == ["de", "den 7"]


@pytest.mark.parametrize(
    ("params", "more", "code"),
    [
        ({"typed": "", "given": {}}, {"complete": "other"}, "METHOD_NOT_FOUND"),
        ({"typed": 1, "given": {}}, {"complete": "number"}, "INVALID_REQUEST"),
        ({"given": {}}, {"complete": "number"}, "INVALID_REQUEST"),
        ({"typed": "", "given": []}, {"complete": "number"}, "INVALID_REQUEST"),
        ({"number": 7}, {"kind": "prompt"}, "METHOD_NOT_FOUND"),
        ({"number": "7"}, {"kind": "resource", "uri": "library://books/7"}, "INVALID_PARAMS"),
    ],
)
async def test_handler_refuses_what_no_hall_should_ask(params: Any, more: dict[str, Any], code: str) -> None:
    async with open_handler(Library) as hall:
        assert (await hall.error("book", params, tool="Library", **more))["code"] == code


async def test_handler_read_without_its_secret_is_refused() -> None:
    async with open_handler(Library) as hall:
        assert (await hall.error("seal", **reading("library://seal")))["code"] == "FORBIDDEN"


async def test_handler_answers_a_hall_that_knows_only_tools_with_the_same_content() -> None:
    async with open_handler(Library) as hall:
        book = await hall.call("book", {"number": 7}, tool="Library")
        file = await hall.call("file", {"path": ["a b", "c"]}, tool="Library")
        letter = await hall.call("letter", {"number": 7}, tool="Library")
    assert [each["uri"] for each in resources(book)] == ["library://books/7"]
    assert [each["uri"] for each in resources(file)] == ["library://files/a%20b/c"]
    assert len(letter["content"]) == 3


async def test_handler_tells_changes_only_to_a_hall_that_reads_them() -> None:
    reports = {"reports": ["tool_changed"]}
    async with open_handler(Library) as hall:
        await hall.result("lend", tool="Library")
        assert hall.heard() == []
        await hall.result("lend", tool="Library", context=reports)
        assert hall.heard() == [{"type": "tool_changed", "id": "17", "uri": "library://books/7"}]
        await hall.result("lend", {"times": 1_500}, tool="Library", context=reports)
        assert len(hall.heard()) == 1_000
