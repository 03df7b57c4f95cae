"""A toolkit whose resources, prompts and completions run in a worker process."""

import os
from collections.abc import Mapping
from typing import Any

from toolhall import Context, Image, Message, Resource, Text, Toolkit, prompt, resource


class Library(Toolkit, version="1.0.0", isolated=True):
    """Books, and letters about them."""

    def __init__(self) -> None:
        self.entered_in = 0

    async def __aenter__(self) -> "Library":
        self.entered_in = os.getpid()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.entered_in = 0

    @resource("library://read/{what}")
    async def read(self, ctx: Context, what: str) -> Any:
        """What is read, of every type."""
        ctx.changed(f"library://read/{what}")
        return CONTENTS[what]

    @read.complete("what")
    async def readable(self, ctx: Context, typed: str, given: Mapping[str, str]) -> list[str]:
        return [typed, *given.values(), ctx.caller.id, str(self.entered_in == os.getpid())]

    @resource("library://process")
    def process(self) -> str:
        """Where it runs."""
        return f"{os.getpid()} {self.entered_in}"

    @prompt
    async def said(self, what: str) -> Any:
        """What is said, of every type."""
        return MESSAGES[what]

    @said.complete("what")
    def sayable(self) -> Any:
        raise RuntimeError("not now")


CONTENTS: dict[str, Any] = {
    "text": "a\nb",
    "bytes": b"\x00\xff",
    "value": {"a": [1, None]},
    "nothing": None,
    "one": Resource(uri="a:b", content=b"\xff", mime_type="x/y"),
    "two": [Resource(uri="a:b", content="x"), Resource(uri="a:c", content=b"\x00", meta={"m": 1})],
    "none": [],
}
MESSAGES: dict[str, Any] = {
    "text": "Hello.",
    "message": Message.assistant("Hello."),
    "mixed": ["Hello.", Message.assistant(Image(b"\xff")), Text("Ha.")],
    "wrong": {"role": "system"},
}
