"""`toolhall call`: shows the inputs, confirms, calls one tool, validates its result, logs the call in CallLog."""

import hashlib
import os
import sys
import time
from pathlib import Path

import msgspec

from toolhall.cli.arguments import check_arguments, read_arguments, split_words
from toolhall.cli.block_output import print_blocks, print_value
from toolhall.cli.call_ui import TerminalClient
from toolhall.cli.clients.base import CallResult, ToolClient, ToolInfo, open_tool_client, require_tool
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.options import CallOptions
from toolhall.cli.output import BOLD, is_interactive, note, print_json, styled, visible, visible_json
from toolhall.cli.progress import show_spinner
from toolhall.cli.prompts import ask_yes_no
from toolhall.cli.settings import ensure_data_folder, read_config_with_data
from toolhall.model.json import JsonObject, encode
from toolhall.schema.cost import BadSchema
from toolhall.schema.validator import Validator

CALL_LOG_FILE = "calls.jsonl"


class CallLogEntry(msgspec.Struct, frozen=True):
    """One line of the call log."""

    time: float
    where: str
    tool: str
    arguments_sha256: str
    outcome: str
    duration_us: int


class CallLog:
    """The log of `toolhall call`: JSON lines in a file that only its owner can read, without argument values."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / CALL_LOG_FILE

    def write(self, where: str, tool: str, arguments: JsonObject, outcome: str, seconds: float) -> None:
        """Append one line; raises CommandError if the call cannot be logged."""
        digest = hashlib.sha256(encode(arguments)).hexdigest()
        record = CallLogEntry(time.time(), where, tool, digest, outcome, int(seconds * 1e6))
        try:
            opened = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(opened, "ab") as file:
                file.write(encode(record) + b"\n")
        except OSError as error:
            raise CommandError(f"the call cannot be logged in {self._file}: {error.strerror}") from None


def run_call(tool: str, words: tuple[str, ...], options: CallOptions) -> int:
    """Call one tool of a target or of a running server."""
    start_logging(None)
    if options.timeout <= 0:
        raise UsageError("--timeout must be more than 0 seconds")
    pairs, target = split_words(words, options, "a call")
    named = options.target or target
    config = read_config_with_data(targets=[named] if named else [], data=str(options.data) if options.data else None)
    log = CallLog(ensure_data_folder(config))
    with open_tool_client(options, target, config) as source:
        info = require_tool(source, source.tools(), tool)
        arguments = read_arguments(pairs, options.args, info.input)
        check_arguments(arguments, info.input, source.argument_binding(info))
        _confirm_call(source, info, arguments, options)
        result = _run_call(source, info, arguments, options.timeout, log)
    return _print_result(result, json=options.json)


def _confirm_call(source: ToolClient, info: ToolInfo, arguments: JsonObject, options: CallOptions) -> None:
    """Show the inputs before the call, and ask before one that may change something (MCP's advice to clients)."""
    hall_asks = source.asks_before(info)
    must_ask = not info.reads_only and not options.yes and not hall_asks
    if must_ask and not is_interactive():
        effect = f"its effect is {info.effect!r}" if info.effect else "it does not say that it only reads"
        raise CommandError(f"{info.name} may change something ({effect}); add --yes to call it without being asked")
    shown_by_hall = hall_asks and is_interactive()
    if not shown_by_hall and (not options.json or sys.stderr.isatty()):
        _print_inputs(source, info, arguments)
    if must_ask and not ask_yes_no("Run it?"):
        raise CommandError("not called: you did not say yes")


def _print_inputs(source: ToolClient, info: ToolInfo, arguments: JsonObject) -> None:
    effect = info.effect or "effect not stated"
    note(f"{styled(visible(info.name), BOLD, sys.stderr)} at {visible(source.where)} ({effect})")
    for name, value in arguments.items():
        note(f"  {visible(name)} = {visible_json(value)}")


def _run_call(source: ToolClient, info: ToolInfo, arguments: JsonObject, seconds: float, log: CallLog) -> CallResult:
    started, outcome = time.monotonic(), "interrupted"
    try:
        with show_spinner(f"Calling {info.name}") as spinner:
            ui = TerminalClient(spinner)
            try:
                result = source.call(info, arguments, ui, seconds)
            finally:
                ui.close()
        outcome = "bad_output"
        _validate_result(info, result)
        outcome = "tool_error" if result.is_error else "ok"
    except CommandError as failed:
        outcome = outcome if outcome == "bad_output" else failed.outcome
        raise
    finally:
        log.write(source.where, info.id or info.name, arguments, outcome, time.monotonic() - started)
    return result


def _validate_result(info: ToolInfo, result: CallResult) -> None:
    """Validate the structured result against the tool's output schema, as MCP asks of clients."""
    if info.result_schema is None or result.is_error:
        return
    if result.structured is msgspec.UNSET:
        raise CommandError(f"{info.name} promised a structured result and sent none; it is not to be relied on")
    try:
        problems = Validator(info.result_schema).problems(result.structured, 0)
    except BadSchema as error:
        raise CommandError(f"the output schema of {info.name} cannot be used: {error}") from None
    if problems:
        listed = "; ".join(str(problem) for problem in problems)
        raise CommandError(f"the result of {info.name} is not what its output schema promises: {listed}")


def _print_result(result: CallResult, *, json: bool) -> int:
    if json:
        print_json(result.document())
    if result.is_error:
        raise CommandError(visible(result.text(), keep="\n") or "the tool failed and did not say why")
    if not json:
        print_blocks(result.content)
        if result.structured is not msgspec.UNSET and not result.content:
            print_value(result.structured)
    return 0
