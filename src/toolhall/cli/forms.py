"""Questions of a running tool, put to the person field by field; a generator that knows no terminal.

It yields what to show. A text that ends with a newline is only shown; any other waits for a line, which is sent back
(None: the person wants to stop).
"""

from collections.abc import Generator
from typing import TypeAlias

import msgspec

from toolhall.cli.arguments import coerced
from toolhall.cli.screen import visible, visible_json
from toolhall.cli.terminal import says_yes
from toolhall.model.json import Json, JsonObject
from toolhall.schema.bounds import BadSchema
from toolhall.schema.validator import Validator

Asking: TypeAlias = Generator[str, str | None, JsonObject]

DECLINED: JsonObject = {"action": "decline"}


class _Stopped(Exception):
    """The person does not want to answer."""


def asking(params: JsonObject) -> Asking:
    """The reply to `elicitation/create`."""
    try:
        return (yield from _visit(params) if params.get("mode") == "url" else _form(params))
    except _Stopped:
        return DECLINED


def _visit(params: JsonObject) -> Asking:
    """MCP: show the whole address and let the person decide; it is never opened by itself."""
    yield f"\nThe tool wants you to open a page: {visible(str(params.get('message', '')), keep=chr(10))}\n"
    typed = yield f"  {visible(str(params.get('url', '')))}\nOpen it yourself if you trust it. Done? [y/N] "
    return {"action": "accept"} if says_yes(typed) else DECLINED


def _form(params: JsonObject) -> Asking:
    message = visible(str(params.get("message", "")), keep="\n")
    yield f"\nThe tool asks: {message}\n(Ctrl+D declines; never type a password here.)\n"
    schema = params.get("requestedSchema")
    fields = schema.get("properties", {}) if isinstance(schema, dict) else {}
    required = schema.get("required", []) if isinstance(schema, dict) else []
    content: JsonObject = {}
    for name, field in fields.items():
        stated = field if isinstance(field, dict) else {}
        value = yield from _field(name, stated, needed=name in required)
        if value is not msgspec.UNSET:
            content[name] = value
    return {"action": "accept", "content": content}


def _field(name: str, field: JsonObject, *, needed: bool) -> Generator[str, str | None, Json]:
    """One value, or UNSET for a field that is left out; asked again until it fits."""
    check = _validator(field)
    while True:
        typed = yield _question(name, field, needed=needed)
        if typed is None:
            raise _Stopped
        if typed == "" and ("default" in field or not needed):
            return field.get("default", msgspec.UNSET)
        value = _value(typed, field)
        problems = check.problems(value, len(typed)) if check else []
        if typed and not problems:
            return value
        yield f"  {problems[0].reason if typed else 'this one is needed'}\n"


def _validator(field: JsonObject) -> Validator | None:
    try:
        return Validator(field)
    except BadSchema:
        return None  # the server judges by itself


def _question(name: str, field: JsonObject, *, needed: bool) -> str:
    about = [str(field[word]) for word in ("title", "description") if isinstance(field.get(word), str)]
    choices = [f"{visible_json(value)}{f' ({visible(title)})' if title else ''}" for value, title in _choices(field)]
    hints = [f"one of {', '.join(choices)}" if choices and field.get("type") != "array" else ""]
    hints += [f"some of {', '.join(choices)}, with commas between" if choices and field.get("type") == "array" else ""]
    hints += [f"default {visible_json(field['default'])}" if "default" in field else ""]
    hints += ["may be left empty" if not needed and "default" not in field else ""]
    told = "; ".join(filter(None, (visible(" - ".join(about)), *hints)))
    return f"  {visible(name)}{f' ({told})' if told else ''}: "


def _choices(field: JsonObject) -> list[tuple[Json, str]]:
    """The values to choose from, each with its title, in every notation that MCP has for them."""
    source = field.get("items", {}) if field.get("type") == "array" else field
    for word in ("oneOf", "anyOf"):
        if isinstance(source.get(word), list):
            return [(each.get("const"), str(each.get("title", ""))) for each in source[word]]
    values, titles = source.get("enum", []), source.get("enumNames", [])
    return [(value, str(titles[place]) if place < len(titles) else "") for place, value in enumerate(values)]


def _value(typed: str, field: JsonObject) -> Json:
    match field.get("type"):
        case "array":
            return [part.strip() for part in typed.split(",") if part.strip()]
        case "boolean" if typed.lower() in ("y", "yes", "n", "no"):
            return says_yes(typed)
        case _:
            return coerced(typed, field, field)
