"""Interaction with the person at the terminal during a call: TerminalClient, elicitation forms, TerminalApprover."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Generator
from typing import TypeAlias

import msgspec

from toolhall.cli.arguments import coerce_argument
from toolhall.cli.errors import CommandError
from toolhall.cli.output import BOLD, DIM, YELLOW, is_interactive, note, styled, visible, visible_json
from toolhall.cli.progress import ProgressBar, Spinner, pause_spinner
from toolhall.cli.prompts import discard_typed_input, is_yes, print_prompt, read_line
from toolhall.model.caller import RequireVerification
from toolhall.model.errors import Limited
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Call
from toolhall.model.tool import Tool
from toolhall.schema.cost import BadSchema
from toolhall.schema.validator import Validator
from toolhall.stores.approvals import MAX_PENDING_PER_CALLER

FormDialog: TypeAlias = Generator[str, str | None, JsonObject]  # yields prompts, is sent typed lines
DECLINED: JsonObject = {"action": "decline"}
_MAX_CHARACTERS = 20_000  # longer arguments would not be read, and what was not read was not approved
_RETRY_AFTER_SECONDS = 30.0  # about as long as a decision takes


class _FormDeclined(Exception):
    """The person declined to answer."""


def prompt_form(params: JsonObject) -> FormDialog:
    """A dialog whose result is the reply to `elicitation/create`."""
    try:
        return (yield from _url_prompt(params) if params.get("mode") == "url" else _form_prompt(params))
    except _FormDeclined:
        return DECLINED


def _url_prompt(params: JsonObject) -> FormDialog:
    """Show the whole URL and let the person decide; it is never opened automatically (as MCP requires)."""
    yield f"\nThe tool wants you to open a page: {visible(str(params.get('message', '')), keep=chr(10))}\n"
    typed = yield f"  {visible(str(params.get('url', '')))}\nOpen it yourself if you trust it. Done? [y/N] "
    return {"action": "accept"} if is_yes(typed) else DECLINED


def _form_prompt(params: JsonObject) -> FormDialog:
    message = visible(str(params.get("message", "")), keep="\n")
    yield f"\nThe tool asks: {message}\n(Ctrl+D declines; never type a password here.)\n"
    schema = params.get("requestedSchema")
    fields = schema.get("properties", {}) if isinstance(schema, dict) else {}
    required = schema.get("required", []) if isinstance(schema, dict) else []
    content: JsonObject = {}
    for name, field in fields.items():
        schema_of_field = field if isinstance(field, dict) else {}
        value = yield from _prompt_field(name, schema_of_field, required=name in required)
        if value is not msgspec.UNSET:
            content[name] = value
    return {"action": "accept", "content": content}


def _prompt_field(name: str, field: JsonObject, *, required: bool) -> Generator[str, str | None, Json]:
    """Ask for one value until it is valid; UNSET for an optional field that is left out."""
    check = _validator(field)
    while True:
        typed = yield _field_prompt(name, field, required=required)
        if typed is None:
            raise _FormDeclined
        if typed == "" and ("default" in field or not required):
            return field.get("default", msgspec.UNSET)
        value = _field_value(typed, field)
        problems = check.problems(value, len(typed)) if check else []
        if typed and not problems:
            return value
        yield f"  {problems[0].reason if typed else 'this one is needed'}\n"


def _validator(field: JsonObject) -> Validator | None:
    try:
        return Validator(field)
    except BadSchema:
        return None  # the server validates


def _field_prompt(name: str, field: JsonObject, *, required: bool) -> str:
    about = [str(field[word]) for word in ("title", "description") if isinstance(field.get(word), str)]
    choices = [f"{visible_json(value)}{f' ({visible(title)})' if title else ''}" for value, title in _choices(field)]
    hints = [f"one of {', '.join(choices)}" if choices and field.get("type") != "array" else ""]
    hints += [f"some of {', '.join(choices)}, with commas between" if choices and field.get("type") == "array" else ""]
    hints += [f"default {visible_json(field['default'])}" if "default" in field else ""]
    hints += ["may be left empty" if not required and "default" not in field else ""]
    hint = "; ".join(filter(None, (visible(" - ".join(about)), *hints)))
    return f"  {visible(name)}{f' ({hint})' if hint else ''}: "


def _choices(field: JsonObject) -> list[tuple[Json, str]]:
    """The allowed values with their titles, in each of the notations that MCP has for them."""
    source = field.get("items", {}) if field.get("type") == "array" else field
    for word in ("oneOf", "anyOf"):
        if isinstance(source.get(word), list):
            return [(each.get("const"), str(each.get("title", ""))) for each in source[word]]
    values, titles = source.get("enum", []), source.get("enumNames", [])
    return [(value, str(titles[index]) if index < len(titles) else "") for index, value in enumerate(values)]


def _field_value(typed: str, field: JsonObject) -> Json:
    match field.get("type"):
        case "array":
            return [part.strip() for part in typed.split(",") if part.strip()]
        case "boolean" if typed.lower() in ("y", "yes", "n", "no"):
            return is_yes(typed)
        case _:
            return coerce_argument(typed, field, field)


class TerminalClient:
    """CallUI at the terminal: shows progress and log, asks the person; without a terminal it declines questions."""

    def __init__(self, spinner: Spinner | None) -> None:
        self._spinner = spinner
        self._bar: ProgressBar | None = None

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Show progress on a terminal."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._stop_spinner()
            self._bar = _new_bar()
        self._bar.update(done, total, visible(message or ""))

    def log(self, level: str, data: Json) -> None:
        """Print a log message, above the bar if there is one."""
        text = visible(data) if isinstance(data, str) else visible_json(data)
        line = f"{visible(level)}: {text}"
        if self._bar is not None:
            self._bar.print_above(line)
        else:
            self._stop_spinner()
            note(styled(line, DIM, sys.stderr))

    def answer(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the person and return the reply to an MCP request; declines without a terminal."""
        if method != "elicitation/create":
            raise CommandError(f"the tool asks for {visible(method)}, which a terminal cannot give")
        self.close()
        if not is_interactive():
            return DECLINED
        with _default_sigint():
            return _prompt_elicitation(params)

    def close(self) -> None:
        """Remove the spinner and the bar."""
        self._stop_spinner()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _stop_spinner(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()


def _new_bar() -> ProgressBar:
    from toolhall.cli.rich_output import RichProgressBar  # lazy: rich

    return RichProgressBar()


def _prompt_elicitation(params: JsonObject) -> JsonObject:
    dialog = prompt_form(params)
    typed: str | None = None
    discard_typed_input()
    try:
        prompt = next(dialog)
        while True:
            print_prompt(prompt)
            typed = None if prompt.endswith("\n") else _read_line()
            prompt = dialog.send(typed)
    except StopIteration as finished:
        reply: JsonObject = finished.value
        return reply


def _read_line() -> str | None:
    line = sys.stdin.readline()
    if not line:
        note()
        return None
    return line.strip()


@contextlib.contextmanager
def _default_sigint() -> Generator[None, None, None]:
    """Context in which Ctrl+C raises KeyboardInterrupt: asyncio's handler would wait for the blocked event loop."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def terminal_approver() -> "TerminalApprover | None":
    """A TerminalApprover, if a person is at this terminal."""
    return TerminalApprover() if sys.platform != "win32" and is_interactive() else None


class TerminalApprover:
    """Asks the person at the terminal for approval, one call at a time; the hall goes on serving meanwhile."""

    def __init__(self) -> None:
        self._prompt_lock = asyncio.Lock()
        self._waiting = 0

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: RequireVerification) -> bool:
        """Whether the person typed yes to exactly this call; raises Limited if too many calls wait for that."""
        lines = [f"    {visible(name)} = {visible_json(value)}" for name, value in arguments.items()]
        if sum(map(len, lines)) > _MAX_CHARACTERS:
            note(f"Refused {tool.id}: its arguments are too long to be read")
            return False
        if self._waiting >= MAX_PENDING_PER_CALLER:
            raise Limited(_RETRY_AFTER_SECONDS, detail="the person at the terminal has too many calls to decide")
        self._waiting += 1
        try:
            async with self._prompt_lock:
                with pause_spinner("approval"):
                    return await self._prompt(tool, call, lines, verdict.level)
        finally:
            self._waiting -= 1

    async def _prompt(self, tool: Tool, call: Call, lines: list[str], level: int) -> bool:
        note(styled(f"\nA call of level {level} needs your yes", BOLD, sys.stderr))
        note(f"  tool    {visible(str(tool.id))}\n  caller  {visible(call.caller.id)}")
        if call.caller.acting_for is not None:
            note(f"  user    {visible(call.caller.acting_for)}")
        if call.caller_credentials:
            note(f"  brings  {visible(', '.join(call.caller_credentials.labels))}")
        note("  arguments")
        note("\n".join(lines) or "    none")
        discard_typed_input()
        print_prompt(styled("Run it? [y/N] ", YELLOW, sys.stderr))
        try:
            agreed = is_yes(await read_line())
        except asyncio.CancelledError:
            note("\nThe caller went away.")
            raise
        note("Approved." if agreed else "Refused.")
        return agreed
