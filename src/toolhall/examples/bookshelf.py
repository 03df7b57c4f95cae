"""A bookshelf: a resource, a URI template that completes its variable, and a prompt that carries a resource."""

from dataclasses import dataclass
from typing import Annotated, Literal

from toolhall import Message, Resource, ToolFailed, Toolkit, prompt, resource


@dataclass
class Book:
    """A book on the shelf."""

    title: str
    author: str
    year: int
    about: str


_BOOKS = {
    "frankenstein": Book("Frankenstein", "Mary Shelley", 1818, "A student makes a living being, and leaves it alone."),
    "middlemarch": Book("Middlemarch", "George Eliot", 1871, "A town in England, and two marriages in it."),
    "moby-dick": Book("Moby-Dick", "Herman Melville", 1851, "A captain hunts the whale that took his leg."),
}


class Bookshelf(Toolkit, version="1.0.0", level=1, tags=["books"]):
    """Books to read, and a prompt to talk about one of them."""

    @resource("books://shelf", title="The shelf", fresh=3600, shared=True)
    async def shelf(self) -> list[str]:
        """Lists the URIs of the books."""
        return [f"books://shelf/{name}" for name in _BOOKS]

    @resource("books://shelf/{name}", title="A book", fresh=3600, shared=True)
    async def book(self, name: Annotated[str, "The book's name in the list."]) -> Book | None:
        """Describes one book."""
        return _BOOKS.get(name)

    @prompt(title="Discuss a book")
    async def discuss(
        self,
        name: Annotated[str, "The book's name in the list."],
        mood: Annotated[Literal["critical", "curious"], "How to talk about it."] = "curious",
    ) -> list[Message]:
        """Begins a conversation about one book."""
        book = _BOOKS.get(name)
        if book is None:
            raise ToolFailed(f"this book is not on the shelf; try {', '.join(_BOOKS)}")
        about = f"{book.title} by {book.author}, {book.year}: {book.about}"
        carried = Resource(uri=f"books://shelf/{name}", content=about, mime_type="text/plain")
        return [
            Message.user(carried),
            Message.user(f"Let us talk about this book. Be {mood}, and ask me one question."),
        ]

    @book.complete("name")
    @discuss.complete("name")
    async def names(self) -> list[str]:
        return list(_BOOKS)
