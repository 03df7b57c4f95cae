"""The tools that every runner runs, in Python; `kit.ts` holds the same ones in TypeScript."""

import asyncio
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from toolhall import (
    Audio,
    Context,
    Image,
    Message,
    Notes,
    Reply,
    Resource,
    ResourceLink,
    Text,
    ToolFailed,
    Toolkit,
    prompt,
    resource,
    tool,
)
from toolhall.model.content import Content
from toolhall.model.errors import BadArguments, Problem

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Person(msgspec.Struct, omit_defaults=True):
    """Somebody, and whom they know."""

    name: str
    age: int = 0
    friends: list["Person"] = []


class Kit(Toolkit, name="Kit", version="1.2.0"):
    """One tool for everything that may go differently in another process."""

    @tool
    async def echo(self, value: Any) -> Any:
        """Return what was given."""
        return value

    @tool
    async def free(self, value: Any):  # type: ignore[no-untyped-def]
        """Return what was given, without a promise."""
        return value

    @tool
    async def nothing(self) -> None:
        """Return nothing at all."""

    @tool
    async def greet(self, name: str, greeting: str = "Hello", times: Annotated[int, msgspec.Meta(ge=1)] = 2) -> str:
        """Greet somebody, twice unless told otherwise."""
        return " ".join([f"{greeting}, {name}!"] * times)

    @tool
    async def befriend(self, person: Person, friend: str) -> Person:
        """Return an object that holds objects."""
        return Person(person.name, person.age, [*person.friends, Person(friend)])

    @tool(returns=int)
    async def misprint(self) -> Any:
        """Promise a number, return a text."""
        return "no number"

    @tool(returns=Any)
    async def scribble(self) -> object:
        """Return what JSON cannot say."""
        return {"lost": self.scribble}

    @tool
    async def large(self, size: int) -> str:
        """Return so many letters."""
        return "x" * size

    @tool
    async def blocks(self) -> list[Content]:
        """Return one block of every kind."""
        notes = Notes(audience=("user",), priority=0.5, last_modified="2026-01-02T03:04:05Z")
        return [
            Text("Grüße 🎈", notes, {"example.com/kind": "greeting"}),
            Image(bytes(range(256)), "image/png"),
            Audio(b"RIFF\0\0", "audio/wav"),
            Resource(uri="memo://1", content="a memo", mime_type="text/plain"),
            Resource(uri="memo://2", content=b"\0\xff", mime_type="application/octet-stream"),
            ResourceLink(uri="https://example.com/3", name="three", title="Three", description="The third", size=3),
        ]

    @tool(returns=dict[str, int])
    async def reply(self, is_error: bool = False) -> Reply:
        """Return blocks, a value and notes at once."""
        return Reply((Text("two of them"),), {"count": 2}, {"example.com/shelf": [1, {"row": "b"}]}, is_error)

    @tool
    async def enter(self, file: str, count: Annotated[int, msgspec.Meta(ge=1)], word: str = "in") -> None:
        """Write down that it was entered."""
        write(file, f"{word} {count}")

    @tool
    async def steps(self, ctx: Context) -> str:
        """Tell five things in an order."""
        ctx.progress(1, 3, "one")
        ctx.log({"step": 1, "of": ["a", None]})
        ctx.progress(2, 3)
        ctx.log("almost", "warning")
        ctx.progress(3)
        return "done"

    @tool
    async def ask(self, ctx: Context) -> dict[str, str]:
        """Ask for a name."""
        given = await ctx.ask("Your name?", FORM)
        return {"action": given.action, **({"name": given.value["name"]} if given.accepted else {})}

    @tool
    async def ask_twice(self, ctx: Context) -> list[str]:
        """Ask for one name after the other, and tell of each."""
        names: list[str] = []
        for number in (1, 2):
            given = await ctx.ask(f"Name {number}?", FORM)
            ctx.log(f"got {number}")
            names.append(given.value["name"])
        return names

    @tool(timeout=1.5)
    async def ask_patiently(self, ctx: Context) -> str:
        """Ask somebody who takes longer than the tool has."""
        return str((await ctx.ask("Your name?", FORM)).value["name"])

    @tool
    async def visit(self, ctx: Context) -> bool:
        """Ask somebody to open a page."""
        return await ctx.visit("Please look", "https://example.com/look", key="look")

    @tool(timeout=30)
    async def linger(self, ctx: Context, file: str) -> None:
        """Wait for an end that only somebody else can bring."""
        await until_stopped(ctx, file)

    @tool(timeout=1)
    async def dawdle(self, ctx: Context, file: str) -> None:
        """Take more time than there is."""
        await until_stopped(ctx, file)

    @tool
    async def meet(self, number: int) -> int:
        """Wait a moment, so that calls run beside each other."""
        await asyncio.sleep(0.05)
        return number

    @tool
    async def fail(self, how: str) -> None:
        """Say that it cannot be done."""
        match how:
            case "for good":
                raise ToolFailed("the shelf is empty")
            case "for a while":
                raise ToolFailed("the shelf is being filled", retry_after=2.5, prompt="Ask for the other shelf.")
            case _:
                raise ToolFailed("the shelf is out of sight", can_retry=True)

    @tool
    async def refuse(self, name: str) -> None:
        """Refuse arguments that the schema allows."""
        raise BadArguments([Problem("/name", "is taken; choose another"), Problem("", "is all wrong")])

    @tool
    async def crash(self, text: str) -> None:
        """Raise what nobody may read."""
        raise RuntimeError(text)

    @tool
    async def who(self, ctx: Context) -> dict[str, Any]:
        """Say who calls."""
        caller = ctx.caller
        named = {"id": caller.id, "person": caller.person, "proof": caller.proof, "acting_for": caller.acting_for}
        return {**named, "scopes": sorted(caller.scopes)}

    @tool(secrets=["KIT_KEY"], account="acme:mail.read mail.send", user_id=True)
    async def equipped(self, ctx: Context) -> dict[str, Any]:
        """Say what it was supplied with, so that nothing of it can be read."""
        account = ctx.account
        return {
            "secret": digest(ctx.secret("KIT_KEY")),
            "token": digest(account.token),
            "scopes": list(account.scopes),
            "user": ctx.user_id,
            "other": refused(ctx, "KIT_PIN"),
        }

    @tool(secrets=["KIT_PIN"])
    async def half_equipped(self, ctx: Context) -> dict[str, Any]:
        """Say what it was not supplied with."""
        return {"other": refused(ctx, "KIT_KEY"), "account": not ctx.accounts, "own": not refused(ctx, "KIT_PIN")}

    @tool
    async def bare(self, ctx: Context) -> dict[str, Any]:
        """Say what a tool is supplied with that declares nothing."""
        return {"other": refused(ctx, "KIT_KEY"), "account": not ctx.accounts}

    @tool(secrets=["KIT_WORD"])
    async def leak(self, ctx: Context, how: str) -> Reply:
        """Say the secret in every way there is."""
        secret = ctx.secret("KIT_WORD")
        if how == "fail":
            raise ToolFailed(f"the word {secret} is wrong", prompt=f"not {secret}")
        if how == "crash":
            raise RuntimeError(secret)
        ctx.progress(1, 1, f"using {secret}")
        ctx.log({"word": [secret]})
        return Reply((Text(f"it is {secret}"), Image(secret.encode())), [secret], {"example.com/word": secret})


class First(Toolkit, name="Pair", version="1.0.0"):
    """The version before."""

    @tool
    async def which(self) -> str:
        """Say which version runs."""
        return "first"


class Second(Toolkit, name="Pair", version="2.0.0"):
    """The version of today."""

    @tool
    async def which(self) -> str:
        """Say which version runs."""
        return "second"


class Library(Toolkit, name="Library", version="1.0.0"):
    """Books: what is read, said and completed, where the tools run."""

    @resource("library://rules", mime_type="text/markdown", fresh=60, shared=True)
    async def rules(self) -> str:
        """The rules of the house."""
        return "# Be quiet\n"

    @resource("library://seal", mime_type="image/png")
    def seal(self) -> bytes:
        """The seal, in a few bytes that are no text."""
        return b"\0\xff\x89"

    @resource("library://books/{number}{?lang}")
    async def book(self, number: int, lang: str = "en") -> dict[str, Any] | None:
        """One book, of those with a number below one hundred."""
        return {"number": number, "lang": lang} if number < 100 else None

    @book.complete("number")
    async def numbers(self, typed: str) -> list[str]:
        return [str(number) for number in range(300) if typed in str(number)]

    @resource("library://shelves/{shelf}", mime_type="text/plain")
    async def shelf(self, shelf: str) -> list[Resource]:
        """Two books of a shelf, each under its own URI."""
        return [
            Resource(uri=f"library://{shelf}/1", content="one", mime_type="text/plain"),
            Resource(uri=f"library://{shelf}/2", content=b"\xfe", meta={"example.com/page": 2}),
        ]

    @resource("library://desk/{of}")
    async def desk(self, ctx: Context, of: Literal["Ada", "Eve"]) -> str:
        """What somebody says who is asked."""
        given = await ctx.ask(f"Who reads {of}'s desk?", FORM)
        return f"{of}: {given.value['name']}" if given.accepted else "nobody"

    @resource("library://broken")
    async def broken(self) -> str:
        """Raise what nobody may read."""
        raise RuntimeError("w0rd-of-the-library")

    @prompt
    async def review(self, ctx: Context, number: int, tone: Literal["kind", "harsh"] = "kind") -> list[Message]:
        """Start a conversation about a book."""
        ctx.progress(1)
        book = Resource(uri=f"library://books/{number}", content="{}", mime_type="application/json")
        return [Message.user(book), Message.assistant(f"A {tone} review of {number + 1}?"), Message.user("Yes.")]

    @review.complete("number")
    async def reviewed(self, ctx: Context, given: Mapping[str, str]) -> list[str]:
        return [f"{given.get('tone', 'any')} 1", f"{given.get('tone', 'any')} 2", "other", str(not ctx.caller.id)]

    @prompt
    async def greeting(self) -> str:
        """Say one text."""
        return "Hello."

    @tool
    async def lend(self, ctx: Context, uri: str) -> None:
        """Tell that a resource has changed."""
        ctx.changed(uri)


async def until_stopped(ctx: Context, file: str) -> None:
    """Write down who runs, wait, and write down what came."""
    write(file, f"began {os.getpid()}")
    ctx.progress(1)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        write(file, "stopped")
        raise


def write(file: str, line: str) -> None:
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(f"{line}\n")


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def refused(ctx: Context, id: str) -> bool:  # noqa: A002 - as OXP calls it
    """Whether a secret cannot be had."""
    try:
        ctx.secret(id)
    except LookupError:
        return True
    return False
