"""The example of resources, completion and a prompt."""

import pytest

from toolhall import Message, ToolFailed, ToolhallError
from toolhall.examples.bookshelf import Bookshelf
from toolhall.testing import Client


async def test_bookshelf_books_of_the_list_can_be_read() -> None:
    shelf = Bookshelf()
    async with Client(shelf) as client:
        uris = await client.read(shelf.shelf)
        assert len(uris) == 3
        for uri in uris:
            assert "author" in str(await client.read(uri))
        assert (await client.read(shelf.book, name="moby-dick")).year == 1851
        with pytest.raises(ToolhallError, match="unknown resource"):
            await client.read(shelf.book, name="ulysses")


async def test_bookshelf_prompt_carries_the_book_and_completes_its_arguments() -> None:
    shelf = Bookshelf()
    async with Client(shelf) as client:
        assert await client.complete(shelf.discuss, "name", "mid") == ["middlemarch"]
        assert await client.complete(shelf.book, "name", "m") == ["middlemarch", "moby-dick"]
        assert await client.complete(shelf.discuss, "mood", "cr") == ["critical"]
        _, asked = await client.prompt(shelf.discuss, name="middlemarch", mood="critical")
        assert asked == Message.user("Let us talk about this book. Be critical, and ask me one question.")
        with pytest.raises(ToolFailed, match="try frankenstein, middlemarch, moby-dick"):
            await client.prompt(shelf.discuss, name="ulysses")
