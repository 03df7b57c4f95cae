"""`toolhall call`: shows the inputs, asks before anything that is not read-only, checks the result, keeps a log."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.cli.arguments import check_arguments, read_arguments
from toolhall.cli.attending import TerminalAttendant
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.journal import CallLog
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import (
    BOLD,
    YELLOW,
    drawing,
    note,
    person_present,
    pretty,
    print_json,
    styled,
    visible,
    visible_json,
)
from toolhall.cli.settings import data_folder, read_settings
from toolhall.cli.source import SourceOptions, opened
from toolhall.cli.sources.local import LocalSource
from toolhall.cli.sources.offer import Offer, Outcome, Source
from toolhall.cli.targets import looks_like_target
from toolhall.cli.terminal import forget_typed, prompt, says_yes
from toolhall.cli.waiting import waiting
from toolhall.cli.wanted import wanted_offer
from toolhall.model.json import Json, JsonObject
from toolhall.model.levels import STEP_UP_FROM
from toolhall.schema.bounds import BadSchema
from toolhall.schema.validator import Validator


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
        raise WrongUsage("--timeout must be more than 0 seconds")
    pairs, target = _sort(words, options)
    named = options.target or target
    config = read_settings(targets=[named] if named else [], data=str(options.data) if options.data else None)
    log = CallLog(data_folder(config))
    with opened(options, target, config) as source:
        offer = wanted_offer(source, source.offers(), tool)
        arguments = read_arguments(pairs, options.args, offer.input)
        check_arguments(arguments, offer.input, source.bind_of(offer) if isinstance(source, LocalSource) else None)
        _agree(source, offer, arguments, options)
        outcome = _run(source, offer, arguments, options.timeout, log)
    return _show(outcome, json=options.json)


def _sort(words: tuple[str, ...], options: SourceOptions) -> tuple[list[str], str | None]:
    """`key=value` words, and the target if the last of the others is one."""
    pairs = [word for word in words if "=" in word]
    others = [word for word in words if "=" not in word]
    if len(others) > 1:
        raise WrongUsage(f"{others[0]!r} is no key=value; a call takes one TARGET, at its end")
    if others and (options.url or options.target or not looks_like_target(others[0])):
        raise WrongUsage(f"{others[0]!r} is no key=value and no target; write arguments as key=value")
    return pairs, others[0] if others else None


def _agree(source: Source, offer: Offer, arguments: JsonObject, options: CallOptions) -> None:
    """MCP: show the inputs before the call, and let a person say no to what changes something."""
    must_ask = not offer.reads_only and not options.yes and not _asked_by_hall(source, offer)
    if must_ask and not person_present():
        effect = f"its effect is {offer.effect!r}" if offer.effect else "it does not say that it only reads"
        raise CommandFailed(f"{offer.name} may change something ({effect}); add --yes to call it without being asked")
    shown_by_hall = _asked_by_hall(source, offer) and person_present()
    if not shown_by_hall and (not options.json or sys.stderr.isatty()):
        _show_inputs(source, offer, arguments)
    if must_ask:
        forget_typed()
        prompt(styled("Run it? [y/N] ", YELLOW, sys.stderr))
        if not says_yes(sys.stdin.readline()):
            raise CommandFailed("not called: you did not say yes")


def _asked_by_hall(source: Source, offer: Offer) -> bool:
    """From this level up the hall asks by itself, and --yes does not speak for a person there."""
    return isinstance(source, LocalSource) and (offer.effective_level or 0) >= STEP_UP_FROM


def _show_inputs(source: Source, offer: Offer, arguments: JsonObject) -> None:
    effect = offer.effect or "effect not stated"
    note(f"{styled(visible(offer.name), BOLD, sys.stderr)} at {visible(source.where)} ({effect})")
    for name, value in arguments.items():
        note(f"  {visible(name)} = {visible_json(value)}")


def _run(source: Source, offer: Offer, arguments: JsonObject, seconds: float, log: CallLog) -> Outcome:
    started, outcome = time.monotonic(), "interrupted"
    try:
        with waiting(f"Calling {offer.name}") as spinner:
            attendant = TerminalAttendant(spinner)
            try:
                result = source.call(offer, arguments, attendant, seconds)
            finally:
                attendant.close()
        outcome = "bad_output"
        _check(offer, result)
        outcome = "tool_error" if result.is_error else "ok"
    except CommandFailed as failed:
        outcome = outcome if outcome == "bad_output" else failed.outcome
        raise
    finally:
        log.write(source.where, offer.id or offer.name, arguments, outcome, time.monotonic() - started)
    return result


def _check(offer: Offer, outcome: Outcome) -> None:
    """MCP: a client validates structured results against the schema that the tool promised."""
    if offer.promised is None or outcome.is_error:
        return
    if outcome.structured is msgspec.UNSET:
        raise CommandFailed(f"{offer.name} promised a structured result and sent none; it is not to be relied on")
    try:
        problems = Validator(offer.promised).problems(outcome.structured, 0)
    except BadSchema as error:
        raise CommandFailed(f"the output schema of {offer.name} cannot be used: {error}") from None
    if problems:
        listed = "; ".join(str(problem) for problem in problems)
        raise CommandFailed(f"the result of {offer.name} is not what its output schema promises: {listed}")


def _show(outcome: Outcome, *, json: bool) -> int:
    if json:
        print_json(outcome.document())
    if outcome.is_error:
        raise CommandFailed(visible(outcome.text(), keep="\n") or "the tool failed and did not say why")
    if not json:
        _print_content(outcome)
    return 0


def _print_content(outcome: Outcome) -> None:
    shown: Json = msgspec.UNSET
    for block in outcome.content:
        match block:
            case {"type": "text", "text": str(text)}:
                shown = _parsed(text)
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
        drawing().print_value(value)
    else:
        print(pretty(value))


def _parsed(text: str) -> Json:
    """An object or a list that came as text."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return msgspec.UNSET
    return value if isinstance(value, dict | list) else msgspec.UNSET
