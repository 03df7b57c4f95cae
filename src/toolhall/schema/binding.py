"""Binds checked arguments to a function's parameters, and lists everything that their types refuse.

A schema cannot say all that a type demands: forms of dates, validators of a pydantic model, a class's `__post_init__`.
Binding is one decoding of all arguments. Only when it fails, each part is decoded by itself, so that every problem is
found and not the first alone. What an author wrote in a validator is told in the author's words, without the value.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Annotated, Any, NamedTuple, NotRequired, Required, TypedDict, get_args, get_origin

import msgspec

from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import Json, JsonObject
from toolhall.model.text import clean_text
from toolhall.schema.fields import field_hints, has_fields
from toolhall.schema.types import decoder_of
from toolhall.schema.validator import LIST_ALL_BELOW, LIST_ALL_CHECKS, bounded, parts, shown
from toolhall.schema.walk import escape

MAX_SAID = 500  # letters of an author's own text
_FORM = "the value does not have the form that this parameter needs"
_AT = re.compile(r" - at `\$([^`]*)`\Z")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
# What msgspec says of a form or a type; it never quotes the value in these.
_SAFE = re.compile(
    r"Invalid (RFC3339 encoded \w+|ISO8601 duration|base64 encoded string|UUID|decimal string)"
    r"|Expected `[^`]+`(?:, got `[^`]+`| with a timezone component)?"
)
_EXAMPLES = {
    "RFC3339 encoded datetime": "2026-12-01T12:00:00Z",
    "RFC3339 encoded date": "2026-12-01",
    "RFC3339 encoded time": "12:00:00",
    "ISO8601 duration": "PT1H30M",
    "base64 encoded string": "aGVsbG8=",
    "UUID": "123e4567-e89b-12d3-a456-426614174000",
    "decimal string": "12.50",
}
_SAID_BY = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}  # what pydantic puts before
_MOST_MASKED = 100
_LEAST_MASKED = 3  # letters or digits of a value that is found in a text without quotes


class _Part(NamedTuple):
    """A part of a value: the step that leads there, its type and the value."""

    step: str
    hint: Any
    value: Json


def binder(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Callable[[JsonObject], JsonObject]:
    """How arguments become parameters; it raises BadArguments with all problems."""
    if not parameters:
        return lambda arguments: arguments
    fields = {
        p.name: Required[hints[p.name]] if p.default is p.empty else NotRequired[hints[p.name]] for p in parameters
    }
    shape = TypedDict("Arguments", fields)  # type: ignore[misc]  # made from the signature
    convert = decoder_of(shape)

    def bind(arguments: JsonObject) -> JsonObject:
        try:
            return convert(arguments)  # type: ignore[no-any-return]
        except msgspec.ValidationError:
            return _bind_loosely(convert, arguments, hints)

    return bind


def with_forms(
    problems: list[Problem], arguments: JsonObject, size: int, bind: Callable[[JsonObject], JsonObject] | None
) -> list[Problem]:
    """The problems that a schema finds, and what the function's own types refuse elsewhere in the same arguments."""
    if bind is None or size > LIST_ALL_BELOW:
        return problems
    try:
        bind(arguments)
    except BadArguments as refused:
        told = [problem.path for problem in problems]
        return bounded([*problems, *(each for each in refused.problems if not _is_told(each.path, told))])
    except Exception:  # noqa: BLE001 - types run code of their own, here with values that their schema may refuse
        return problems
    return problems


def _is_told(path: str, told: list[str]) -> bool:
    """Whether a problem was told of this place, of what it is in or of what is in it."""
    return any(f"{path}/".startswith(f"{each}/") or f"{each}/".startswith(f"{path}/") for each in told)


def _bind_loosely(convert: Callable[[Json], Any], arguments: JsonObject, hints: dict[str, Any]) -> JsonObject:
    """JSON Schema counts 2.0 as an integer, Python does not: try again with whole floats as ints."""
    plain = _whole(arguments)
    try:
        return convert(plain)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise BadArguments(bounded(_all_problems(error, plain, hints))) from None


def _whole(value: Json) -> Json:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _whole(part) for key, part in value.items()}
        case list():
            return [_whole(part) for part in value]
        case _:
            return value


def _all_problems(error: msgspec.ValidationError, arguments: JsonObject, hints: dict[str, Any]) -> Iterator[Problem]:
    """Of every parameter; of very many values only the first, because looking at each by itself takes long."""
    found = False
    if parts(arguments) <= LIST_ALL_CHECKS:
        for name, value in arguments.items():
            for problem in _problems(hints[name], value, f"/{escape(name)}") if name in hints else ():
                found = True
                yield problem
    if not found:
        yield from _told(error, arguments, "")


def _problems(hint: Any, value: Json, path: str) -> list[Problem]:
    try:
        decoder_of(hint)(value)
    except msgspec.ValidationError as error:
        inner = [found for part in _split(hint, value) for found in _inside(part, path)]
        return inner or list(_told(error, value, path))
    except Exception:  # noqa: BLE001 - types run code of their own, and not every one stands alone
        return []
    return []


def _inside(part: _Part, path: str) -> list[Problem]:
    return _problems(part.hint, part.value, f"{path}/{escape(part.step)}")


def _split(hint: Any, value: Json) -> list[_Part]:
    """The parts of a list, a mapping or an object with fields; none where a type judges its value as a whole."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _split(arguments[0], value)
    if isinstance(hint, type) and has_fields(hint) and isinstance(value, dict):
        hints = {name: _bare(each) for name, each in field_hints(hint).items()}
        return [_Part(name, hints[name], value[name]) for name in value if name in hints]
    if not arguments:
        return []
    if isinstance(origin, type) and issubclass(origin, Mapping | Sequence | Set):
        return _items(origin, arguments, value)
    # A union: msgspec has at most one type in it for each kind of JSON value, or tells objects apart by a tag.
    chosen = [found for found in (_split(each, value) for each in arguments) if found]
    return chosen[0] if len(chosen) == 1 else []


def _items(origin: type, hints: tuple[Any, ...], value: Json) -> list[_Part]:
    match value:
        case dict() if issubclass(origin, Mapping):
            return [_Part(name, hints[1], each) for name, each in value.items()]
        case list() if issubclass(origin, tuple) and hints[-1] is not Ellipsis:
            return [_Part(str(at), *pair) for at, pair in enumerate(zip(hints, value, strict=False))]
        case list():
            return [_Part(str(at), hints[0], each) for at, each in enumerate(value)]
        case _:
            return []


def _bare(hint: Any) -> Any:
    """A field's type without what a TypedDict says about its being there."""
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _told(error: msgspec.ValidationError, value: Json, path: str) -> Iterator[Problem]:
    """Where it went wrong and how: in the author's words where they are, and never with the value otherwise."""
    text, cause = str(error), error.__cause__
    found = _AT.search(text)
    steps = [name or index for name, index in _STEP.findall(found[1])] if found and not _is_model_error(cause) else []
    place = shown(path + "".join(f"/{escape(step.replace('...', '*'))}" for step in steps))
    if _is_model_error(cause):
        yield from _model_problems(cause, value, path)
    elif isinstance(cause, ValueError | TypeError):
        yield Problem(place, _said(str(cause), value, cause))
    else:
        said = text[: found.start()] if found else text
        yield Problem(place, _form_reason(said))


def _form_reason(said: str) -> str:
    """What msgspec says of a form or a type, with an example of the form."""
    safe = _SAFE.fullmatch(said)
    if safe is None:
        return _FORM
    example = _EXAMPLES.get(safe[1])
    return said if example is None else f"{said}; write it like {example}"


def _is_model_error(cause: BaseException | None) -> bool:
    """Whether pydantic raised this, told without importing pydantic."""
    return isinstance(cause, ValueError) and hasattr(cause, "errors") and hasattr(cause, "error_count")


def _model_problems(cause: Any, value: Json, path: str) -> Iterator[Problem]:
    """All that a pydantic model found; its path begins where the model stands."""
    for each in cause.errors(include_url=False):
        place = path + "".join(f"/{escape(str(step))}" for step in each["loc"])
        yield Problem(shown(place), _model_reason(each, value))


def _model_reason(found: Mapping[str, Any], value: Json) -> str:
    kind, text, context = str(found["type"]), str(found["msg"]), found.get("ctx", {})
    if kind in _SAID_BY:
        return _said(text.removeprefix(_SAID_BY[kind]), value, context.get("error"))
    if "tag" in context:  # which is what the caller sent
        return shown(f"the tag is not one of {context.get('expected_tags', 'those that are known')}")
    # After the comma a parser says which letter it did not like.
    return _said(text.partition(",")[0] if "error" in context else text, value)


def _said(text: str, value: Json, error: object = None) -> str:
    """An author's text; a value that was put into it is left out, so that no answer repeats what was sent."""
    if not _is_literal(text, error):
        text = _without(text, value)
    return shown(" ".join(clean_text(text[: 2 * MAX_SAID]).split()), MAX_SAID) or _FORM


def _is_literal(text: str, error: object) -> bool:
    """Whether the text stands in the function that raised it as it is: then it is the same for every value."""
    frame = error.__traceback__ if isinstance(error, BaseException) else None
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and text in frame.tb_frame.f_code.co_consts


def _without(text: str, value: Json) -> str:
    """The text with another word for each string and number in the value; a short one only where it is in quotes."""
    for part in _leaves(value):
        text = text.replace(repr(part), "the value") if isinstance(part, str) else text
        if len(plain := str(part)) >= _LEAST_MASKED:
            text = re.sub(rf"(?<!\w){re.escape(plain)}(?!\w)", "the value", text)
    return text


def _leaves(value: Json) -> list[str | int | float]:
    """The strings and numbers in a value, the longest first, because a shorter one may be a part of it."""
    found: list[str | int | float] = []
    pending = [value]
    while pending and len(found) < _MOST_MASKED:
        match pending.pop():
            case bool():
                continue
            case str() | int() | float() as leaf if leaf != "":
                found.append(leaf)
            case dict() as members:
                pending.extend(members.values())
            case list() as items:
                pending.extend(items)
            case _:
                continue
    return sorted(found, key=lambda leaf: -len(str(leaf)))
