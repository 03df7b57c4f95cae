"""Reads a function's Signature: its input and output schema, and the function that binds arguments to its parameters.

Binding checks what a schema cannot express: forms of dates, validators of a pydantic model, a class's `__post_init__`.
It decodes all arguments at once. Only if that fails is each part decoded by itself, so that every problem is listed and
not only the first. The message of an author's own validator is kept, with the value masked, because values may be
secrets.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import (
    Annotated,
    Any,
    NamedTuple,
    NotRequired,
    Protocol,
    Required,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from toolhall.model.content import CONTENT_TYPES, Message, Reply
from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.model.text import clean_text
from toolhall.model.tool import Output
from toolhall.schema.types import (
    PydanticV1Model,
    SchemaMode,
    bytes_decoder_of,
    decoder_of,
    field_hints,
    has_fields,
    schemas_of,
    to_json,
)
from toolhall.schema.validator import (
    LIST_ALL_MAX_BYTES,
    LIST_ALL_MAX_CHECKS,
    Validator,
    count_values,
    limit_problems,
    printable,
)

MAX_AUTHOR_TEXT = 500  # characters of an author's message
_GENERIC_REASON = "the value does not have the form that this parameter needs"
_ERROR_PATH = re.compile(r" - at `\$([^`]*)`\Z")
_PATH_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
# Messages of msgspec that never quote the value.
_SAFE_MESSAGE = re.compile(
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
_PYDANTIC_PREFIXES = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}
_MAX_MASKED = 100
_MIN_MASKED_LENGTH = 3  # shorter values are masked only in quotes


class BadSignature(TypeError):
    """A function that cannot be a tool; the message names the parameter and the fix."""


class Signature(msgspec.Struct, frozen=True):
    """The input schema, the result type and the binder of a tool's function."""

    input: JsonObject
    output: Output
    bind: "Binder"


def read_signature(function: Callable[..., Any], skip: int, returns: Any = None) -> Signature:
    """The signature without the first `skip` parameters; `returns` overrides the return annotation."""
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    for parameter in parameters:
        _check_parameter(parameter, hints)
    returned = hints.get("return", inspect.Signature.empty) if returns is None else returns
    return Signature(_input_schema(parameters, hints), output_of(returned), make_binder(parameters, hints))


def _check_parameter(parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise BadSignature(f"parameter '{name}': a tool cannot take *args or **kwargs; name every parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise BadSignature(f"parameter '{name}' is positional-only; remove the '/' from the signature")
    if name not in hints:
        raise BadSignature(f"parameter '{name}' has no type; annotate it, for example '{name}: str'")


def _input_schema(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> JsonObject:
    for parameter in parameters:
        _schemas_of(f"parameter '{parameter.name}'", [hints[parameter.name]])
    # All at once, so that two types of the same name get definitions of different names.
    schemas = _schemas_of("the parameters", [hints[parameter.name] for parameter in parameters])
    definitions: JsonObject = {}
    properties: JsonObject = {}
    for parameter, schema in zip(parameters, schemas, strict=True):
        definitions |= schema.pop("$defs", {})
        properties[parameter.name] = schema | _default(parameter, schema | {"$defs": definitions})
    # Always with `properties`: some clients require it.
    result: JsonObject = {"type": "object", "properties": properties}
    required = [p.name for p in parameters if p.default is p.empty]
    if required:
        result["required"] = required
    result["additionalProperties"] = False  # an undeclared argument is a mistake or an attack
    return result | ({"$defs": definitions} if definitions else {})


def _schemas_of(subject: str, hints: list[Any], mode: SchemaMode = "validation") -> list[JsonObject]:
    try:
        return schemas_of(hints, mode)
    except PydanticV1Model as error:
        raise BadSignature(f"{subject}: {error}") from None
    except (TypeError, NotImplementedError) as error:
        lines = str(error).splitlines()
        text = lines[-1] if lines[0].endswith(":") else lines[0]  # the rest is about msgspec's own hooks
        raise BadSignature(f"{subject}: {text}; use a type that JSON can express, such as str or a dataclass") from None


def _default(parameter: inspect.Parameter, schema: JsonObject) -> JsonObject:
    if parameter.default is parameter.empty:
        return {}
    try:
        default = msgspec.json.decode(to_json(parameter.default))
    except (TypeError, ValueError, NotImplementedError):
        raise BadSignature(
            f"parameter '{parameter.name}': its default cannot be written as JSON; use None and fill it in inside"
        ) from None
    if not Validator(schema).accepts(default):
        raise BadSignature(f"parameter '{parameter.name}': its default does not fit its type; change one of them")
    return {"default": default}


def output_of(hint: Any) -> Output:
    """The result type of a return annotation; content blocks have no schema."""
    if hint is inspect.Signature.empty or _is_content(hint):
        return Output()
    if hint is None or hint is type(None):
        return Output("none")
    return Output("schema", _schemas_of("the return type", [hint], "serialization")[0])


def _is_content(hint: Any) -> bool:
    if hint is Reply or hint is Message or hint in CONTENT_TYPES:
        return True
    arguments = [argument for argument in get_args(hint) if argument is not Ellipsis]
    return get_origin(hint) is not dict and any(_is_content(argument) for argument in arguments)


class Binder(Protocol):
    """Converts arguments to the values of a function's parameters; raises BadArguments with all problems."""

    def __call__(self, arguments: JsonObject, encoded: bytes | None = None) -> JsonObject:
        """Bind the arguments; `encoded` are the same as JSON, if they were encoded before."""
        ...


def pass_arguments(arguments: JsonObject, encoded: bytes | None = None) -> JsonObject:  # noqa: ARG001 - of Binder
    """Bind arguments to a function that takes them as they are."""
    return arguments


def make_binder(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Binder:
    """A function that decodes arguments to parameter values."""
    if not parameters:
        return pass_arguments
    fields = {
        p.name: Required[hints[p.name]] if p.default is p.empty else NotRequired[hints[p.name]] for p in parameters
    }
    arguments_type = TypedDict("Arguments", fields)  # type: ignore[misc]  # made from the signature
    decode = bytes_decoder_of(arguments_type)

    def bind(arguments: JsonObject, encoded: bytes | None = None) -> JsonObject:
        try:
            return decode(encode(arguments) if encoded is None else encoded)  # type: ignore[no-any-return]
        except msgspec.ValidationError:
            return _bind_with_ints(lambda value: decode(encode(value)), arguments, hints)

    return bind


def with_binding_problems(
    problems: list[Problem], arguments: JsonObject, size: int, bind: Callable[[JsonObject], JsonObject] | None
) -> list[Problem]:
    """The schema's problems, and those that the function's types find elsewhere in the same arguments."""
    if bind is None or size > LIST_ALL_MAX_BYTES:
        return problems
    try:
        bind(arguments)
    except BadArguments as refused:
        reported = [problem.path for problem in problems]
        more = [each for each in refused.problems if not _is_reported(each.path, reported)]
        return limit_problems([*problems, *more])
    except Exception:  # noqa: BLE001 - types run their own code, here with values that their schema may refuse
        return problems
    return problems


def _is_reported(path: str, reported: list[str]) -> bool:
    """Whether a problem is reported at this path, at an ancestor or at a descendant."""
    return any(f"{path}/".startswith(f"{each}/") or f"{each}/".startswith(f"{path}/") for each in reported)


def _bind_with_ints(decode: Callable[[Json], Any], arguments: JsonObject, hints: dict[str, Any]) -> JsonObject:
    """Try again with integral floats as ints: 2.0 is an integer for JSON Schema, but not for Python."""
    converted = _floats_to_ints(arguments)
    try:
        return decode(converted)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise BadArguments(limit_problems(_all_binding_problems(error, converted, hints))) from None


def _floats_to_ints(value: Json) -> Json:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _floats_to_ints(part) for key, part in value.items()}
        case list():
            return [_floats_to_ints(part) for part in value]
        case _:
            return value


def _all_binding_problems(
    error: msgspec.ValidationError, arguments: JsonObject, hints: dict[str, Any]
) -> Iterator[Problem]:
    """The problems of all parameters; only the first for very many values, because each is decoded by itself."""
    any_problem = False
    if count_values(arguments) <= LIST_ALL_MAX_CHECKS:
        for name, value in arguments.items():
            for problem in _value_problems(hints[name], value, f"/{escape_pointer(name)}") if name in hints else ():
                any_problem = True
                yield problem
    if not any_problem:
        yield from _error_problems(error, arguments, "")


class _ValuePart(NamedTuple):
    """A part of a value: its name or index, its type hint and the value."""

    step: str
    hint: Any
    value: Json


def _value_problems(hint: Any, value: Json, path: str) -> list[Problem]:
    try:
        decoder_of(hint)(value)
    except msgspec.ValidationError as error:
        inner = [problem for part in _split_value(hint, value) for problem in _part_problems(part, path)]
        return inner or list(_error_problems(error, value, path))
    except Exception:  # noqa: BLE001 - types run their own code, and some cannot be decoded alone
        return []
    return []


def _part_problems(part: _ValuePart, path: str) -> list[Problem]:
    return _value_problems(part.hint, part.value, f"{path}/{escape_pointer(part.step)}")


def _split_value(hint: Any, value: Json) -> list[_ValuePart]:
    """The parts of a list, a mapping or an object with fields; none for a type that checks its value as a whole."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _split_value(arguments[0], value)
    if isinstance(hint, type) and has_fields(hint) and isinstance(value, dict):
        hints = {name: _unwrap_required(each) for name, each in field_hints(hint).items()}
        return [_ValuePart(name, hints[name], value[name]) for name in value if name in hints]
    if not arguments:
        return []
    if isinstance(origin, type) and issubclass(origin, Mapping | Sequence | Set):
        return _split_items(origin, arguments, value)
    # A union: msgspec allows one type for each kind of JSON value, or objects with a tag.
    splits = [parts for parts in (_split_value(each, value) for each in arguments) if parts]
    return splits[0] if len(splits) == 1 else []


def _split_items(origin: type, hints: tuple[Any, ...], value: Json) -> list[_ValuePart]:
    match value:
        case dict() if issubclass(origin, Mapping):
            return [_ValuePart(name, hints[1], each) for name, each in value.items()]
        case list() if issubclass(origin, tuple) and hints[-1] is not Ellipsis:
            return [_ValuePart(str(index), *pair) for index, pair in enumerate(zip(hints, value, strict=False))]
        case list():
            return [_ValuePart(str(index), hints[0], each) for index, each in enumerate(value)]
        case _:
            return []


def _unwrap_required(hint: Any) -> Any:
    """A TypedDict field's type without Required or NotRequired."""
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _error_problems(error: msgspec.ValidationError, value: Json, path: str) -> Iterator[Problem]:
    """The problems of a decoding error, with the author's message if there is one, and without the value."""
    text, cause = str(error), error.__cause__
    match = _ERROR_PATH.search(text)
    steps = (
        [name or index for name, index in _PATH_STEP.findall(match[1])] if match and not _is_model_error(cause) else []
    )
    error_path = printable(path + "".join(f"/{escape_pointer(step.replace('...', '*'))}" for step in steps))
    if _is_model_error(cause):
        yield from _model_problems(cause, value, path)
    elif isinstance(cause, ValueError | TypeError):
        yield Problem(error_path, _author_text(str(cause), value, cause))
    else:
        message = text[: match.start()] if match else text
        yield Problem(error_path, _form_reason(message))


def _form_reason(message: str) -> str:
    """A safe message of msgspec, with an example of the expected form."""
    safe = _SAFE_MESSAGE.fullmatch(message)
    if safe is None:
        return _GENERIC_REASON
    example = _EXAMPLES.get(safe[1])
    return message if example is None else f"{message}; write it like {example}"


def _is_model_error(cause: BaseException | None) -> bool:
    """Whether this is pydantic's ValidationError, without importing pydantic."""
    return isinstance(cause, ValueError) and hasattr(cause, "errors") and hasattr(cause, "error_count")


def _model_problems(cause: Any, value: Json, path: str) -> Iterator[Problem]:
    """All problems of a pydantic model at `path`."""
    for each in cause.errors(include_url=False):
        error_path = path + "".join(f"/{escape_pointer(str(step))}" for step in each["loc"])
        yield Problem(printable(error_path), _model_reason(each, value))


def _model_reason(error: Mapping[str, Any], value: Json) -> str:
    kind, text, context = str(error["type"]), str(error["msg"]), error.get("ctx", {})
    if kind in _PYDANTIC_PREFIXES:
        return _author_text(text.removeprefix(_PYDANTIC_PREFIXES[kind]), value, context.get("error"))
    if "tag" in context:  # the tag is a value that the caller sent
        return printable(f"the tag is not one of {context.get('expected_tags', 'those that are known')}")
    # The text after the comma quotes the characters that a parser refused.
    return _author_text(text.partition(",")[0] if "error" in context else text, value)


def _author_text(text: str, value: Json, error: object = None) -> str:
    """An author's message with the caller's values masked, so that no answer repeats what was sent."""
    if not _is_constant_text(text, error):
        text = _mask_values(text, value)
    return printable(" ".join(clean_text(text[: 2 * MAX_AUTHOR_TEXT]).split()), MAX_AUTHOR_TEXT) or _GENERIC_REASON


def _is_constant_text(text: str, error: object) -> bool:
    """Whether the text is a constant of the function that raised it, and so cannot contain the value."""
    frame = error.__traceback__ if isinstance(error, BaseException) else None
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and text in frame.tb_frame.f_code.co_consts


def _mask_values(text: str, value: Json) -> str:
    """The text with every string and number of the value replaced by "the value"; short ones only in quotes."""
    for part in _leaves(value):
        text = text.replace(repr(part), "the value") if isinstance(part, str) else text
        if len(literal := str(part)) >= _MIN_MASKED_LENGTH:
            text = re.sub(rf"(?<!\w){re.escape(literal)}(?!\w)", "the value", text)
    return text


def _leaves(value: Json) -> list[str | int | float]:
    """The strings and numbers in a value, longest first, because one may contain another; at most _MAX_MASKED."""
    leaves: list[str | int | float] = []
    pending = [value]
    while pending and len(leaves) < _MAX_MASKED:
        match pending.pop():
            case bool():
                continue
            case str() | int() | float() as leaf if leaf != "":
                leaves.append(leaf)
            case dict() as members:
                pending.extend(members.values())
            case list() as items:
                pending.extend(items)
            case _:
                continue
    return sorted(leaves, key=lambda leaf: -len(str(leaf)))
