"""`toolhall call`: shows the inputs, confirms, calls one tool, validates its result, logs the call in CallLog."""

import hashlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.cli.arguments import check_arguments, read_arguments
from toolhall.cli.call_ui import TerminalClient
from toolhall.cli.clients.base import CallResult, ToolClient, ToolInfo, require_tool
from toolhall.cli.clients.local import LocalToolClient
from toolhall.cli.clients.open import open_tool_client
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.options import SourceOptions
from toolhall.cli.output import (
    BOLD,
    YELLOW,
    is_interactive,
    note,
    pretty_json,
    print_json,
    styled,
    visible,
    visible_json,
)
from toolhall.cli.progress import show_spinner
from toolhall.cli.prompts import discard_typed_input, is_yes, print_prompt
from toolhall.cli.settings import ensure_data_folder, read_config_with_data
from toolhall.cli.targets import looks_like_target
from toolhall.model.caller import STEP_UP_FROM
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.cost import BadSchema
from toolhall.schema.validator import Validator

CALL_LOG_FILE = "calls.jsonl"


class CallLogEntry(msgspec.Struct, frozen=True):
    """One call of `toolhall call`."""

    time: float
    where: str
    tool: str
    arguments_sha256: str
    outcome: str
    duration_us: int


class CallLog:
    """Appends to a file that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / CALL_LOG_FILE

    def write(self, where: str, tool: str, arguments: JsonObject, outcome: str, seconds: float) -> None:
        """Add one line; a call that cannot be logged is not passed over in silence."""
        digest = hashlib.sha256(encode(arguments)).hexdigest()
        record = CallLogEntry(time.time(), where, tool, digest, outcome, int(seconds * 1e6))
        try:
            opened = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(opened, "ab") as file:
                file.write(encode(record) + b"\n")
        except OSError as error:
            raise CommandError(f"the call cannot be logged in {self._file}: {error.strerror}") from None


@dataclass(frozen=True)
class CallOptions(SourceOptions):
    """What `toolhall call` takes.

    Parameters
    ----------
    args
        The arguments as one JSON object; key=value adds to them.
    yes
        Do not ask before a tool that changes something.
    timeout
        Seconds to wait for the answer.
    data
        Folder of the log of calls. [default: one per project]
    """

    args: str | None = None
    yes: Annotated[bool, Parameter(alias="-y")] = False
    timeout: float = 30
    data: Path | None = None


_DEFAULTS = CallOptions()


def call(tool: str, /, *words: str, options: Annotated[CallOptions, Parameter(name="*")] = _DEFAULTS) -> int:
    """Call one tool of a target or of a running server.

    Parameters
    ----------
    tool
        Its published name or its id.
    words
        key=value for each argument (key:=JSON where the value must be read as JSON), and at the end the TARGET:
        file.py, file.py:object, package.module or a folder; the example toolkit when left out.
    """
    start_logging(None)
    if options.timeout <= 0:
        raise UsageError("--timeout must be more than 0 seconds")
    pairs, target = _split_words(words, options)
    named = options.target or target
    config = read_config_with_data(targets=[named] if named else [], data=str(options.data) if options.data else None)
    log = CallLog(ensure_data_folder(config))
    with open_tool_client(options, target, config) as source:
        offer = require_tool(source, source.tools(), tool)
        arguments = read_arguments(pairs, options.args, offer.input)
        check_arguments(
            arguments, offer.input, source.argument_binding(offer) if isinstance(source, LocalToolClient) else None
        )
        _confirm_call(source, offer, arguments, options)
        outcome = _run_call(source, offer, arguments, options.timeout, log)
    return _print_result(outcome, json=options.json)


def _split_words(words: tuple[str, ...], options: SourceOptions) -> tuple[list[str], str | None]:
    """`key=value` words, and the target if the last of the others is one."""
    pairs = [word for word in words if "=" in word]
    others = [word for word in words if "=" not in word]
    if len(others) > 1:
        raise UsageError(f"{others[0]!r} is no key=value; a call takes one TARGET, at its end")
    if others and (options.url or options.target or not looks_like_target(others[0])):
        raise UsageError(f"{others[0]!r} is no key=value and no target; write arguments as key=value")
    return pairs, others[0] if others else None


def _confirm_call(source: ToolClient, offer: ToolInfo, arguments: JsonObject, options: CallOptions) -> None:
    """MCP: show the inputs before the call, and let a person say no to what changes something."""
    must_ask = not offer.reads_only and not options.yes and not _hall_confirms(source, offer)
    if must_ask and not is_interactive():
        effect = f"its effect is {offer.effect!r}" if offer.effect else "it does not say that it only reads"
        raise CommandError(f"{offer.name} may change something ({effect}); add --yes to call it without being asked")
    shown_by_hall = _hall_confirms(source, offer) and is_interactive()
    if not shown_by_hall and (not options.json or sys.stderr.isatty()):
        _print_inputs(source, offer, arguments)
    if must_ask:
        discard_typed_input()
        print_prompt(styled("Run it? [y/N] ", YELLOW, sys.stderr))
        if not is_yes(sys.stdin.readline()):
            raise CommandError("not called: you did not say yes")


def _hall_confirms(source: ToolClient, offer: ToolInfo) -> bool:
    """From this level up the hall asks by itself, and --yes does not speak for a person there."""
    return isinstance(source, LocalToolClient) and (offer.effective_level or 0) >= STEP_UP_FROM


def _print_inputs(source: ToolClient, offer: ToolInfo, arguments: JsonObject) -> None:
    effect = offer.effect or "effect not stated"
    note(f"{styled(visible(offer.name), BOLD, sys.stderr)} at {visible(source.where)} ({effect})")
    for name, value in arguments.items():
        note(f"  {visible(name)} = {visible_json(value)}")


def _run_call(source: ToolClient, offer: ToolInfo, arguments: JsonObject, seconds: float, log: CallLog) -> CallResult:
    started, outcome = time.monotonic(), "interrupted"
    try:
        with show_spinner(f"Calling {offer.name}") as spinner:
            attendant = TerminalClient(spinner)
            try:
                result = source.call(offer, arguments, attendant, seconds)
            finally:
                attendant.close()
        outcome = "bad_output"
        _validate_result(offer, result)
        outcome = "tool_error" if result.is_error else "ok"
    except CommandError as failed:
        outcome = outcome if outcome == "bad_output" else failed.outcome
        raise
    finally:
        log.write(source.where, offer.id or offer.name, arguments, outcome, time.monotonic() - started)
    return result


def _validate_result(offer: ToolInfo, outcome: CallResult) -> None:
    """MCP: a client validates structured results against the schema that the tool promised."""
    if offer.result_schema is None or outcome.is_error:
        return
    if outcome.structured is msgspec.UNSET:
        raise CommandError(f"{offer.name} promised a structured result and sent none; it is not to be relied on")
    try:
        problems = Validator(offer.result_schema).problems(outcome.structured, 0)
    except BadSchema as error:
        raise CommandError(f"the output schema of {offer.name} cannot be used: {error}") from None
    if problems:
        listed = "; ".join(str(problem) for problem in problems)
        raise CommandError(f"the result of {offer.name} is not what its output schema promises: {listed}")


def _print_result(outcome: CallResult, *, json: bool) -> int:
    if json:
        print_json(outcome.document())
    if outcome.is_error:
        raise CommandError(visible(outcome.text(), keep="\n") or "the tool failed and did not say why")
    if not json:
        _print_content(outcome)
    return 0


def _print_content(outcome: CallResult) -> None:
    shown: Json = msgspec.UNSET
    for block in outcome.content:
        match block:
            case {"type": "text", "text": str(text)}:
                shown = _parse_json_text(text)
                if shown is msgspec.UNSET:
                    print(visible(text, keep="\n\t"))
                else:
                    _print_value(shown)
            case {"type": str(kind), **rest}:
                about = rest.get("mimeType") or rest.get("uri") or ""
                size = f", {len(rest['data'])} characters of base64" if isinstance(rest.get("data"), str) else ""
                print(visible(f"[{kind} {about}{size}]"))
            case _:
                continue
    if outcome.structured is not msgspec.UNSET and not outcome.content:
        _print_value(outcome.structured)


def _print_value(value: Json) -> None:
    if sys.stdout.isatty():
        from toolhall.cli.rich_output import print_value  # lazy: rich

        print_value(value)
    else:
        print(pretty_json(value))


def _parse_json_text(text: str) -> Json:
    """An object or a list that came as text."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return msgspec.UNSET
    return value if isinstance(value, dict | list) else msgspec.UNSET
