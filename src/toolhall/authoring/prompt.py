"""The `@prompt` decorator: a function that writes the messages with which a person starts a conversation."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, Unpack, cast, overload

import msgspec

from toolhall.authoring.completion import Completable, make_completable
from toolhall.authoring.declaration import RequirementOptions, ToolOptions, attach, declare, option_names
from toolhall.model.json import JsonObject
from toolhall.model.tool import Icon, PromptInfo

P = ParamSpec("P")
R = TypeVar("R")


class PromptOptions(RequirementOptions, total=False):
    """All options of `@prompt(...)`; the comments give the defaults."""

    name: str  # the function's own name
    title: str
    description: str  # the docstring
    level: int  # 0 to 10; the toolkit's, else 1
    version: str  # the toolkit's, else 0.1.0
    timeout: float  # seconds; the hall's default
    tags: tuple[str, ...] | list[str]
    icons: tuple[Icon, ...] | list[Icon]
    meta: JsonObject


_OPTION_NAMES = option_names(PromptOptions)


@overload
def prompt(function: Callable[P, R], /) -> Completable[P, R]: ...


@overload
def prompt(**options: Unpack[PromptOptions]) -> Callable[[Callable[P, R]], Completable[P, R]]: ...


def prompt(
    function: Callable[P, R] | None = None, /, **options: Unpack[PromptOptions]
) -> Completable[P, R] | Callable[[Callable[P, R]], Completable[P, R]]:
    """Mark a function, or a method of a Toolkit, as a prompt; it returns text, blocks of content, or Messages.

    Parameters have types; clients send texts. One that takes text gets it as it came, any other is read from it.
    """

    def mark(function: Callable[P, R]) -> Completable[P, R]:
        declaration = declare(function, cast(ToolOptions, options), _OPTION_NAMES, "prompt")
        reads = cast(ToolOptions, {**options, "effect": "reads"})
        declaration = msgspec.structs.replace(declaration, options=reads, prompt=PromptInfo())
        attach(function, declaration)
        make_completable(function, declaration)
        return cast(Completable[P, R], function)

    return mark if function is None else mark(function)
