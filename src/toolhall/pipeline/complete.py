"""Completer: completes the arguments of prompts and the variables of resource templates.

A completion is found and authorized like the prompt or resource itself, so that nobody learns by it what they may not
read, and has a rate limit of its own per caller, because clients ask at every key. Completions are counted, and not
recorded in the audit. Where a grant depends on arguments, or a person has to agree to each read, only the choices that
the schema names are completed.
"""

import logging
import time
from collections.abc import Callable, Iterable

import msgspec

from toolhall.model.caller import Allow, Caller
from toolhall.model.errors import BadArguments, BadOutput, Broken, Limited, Problem, ToolhallError
from toolhall.model.json import escape_pointer
from toolhall.model.messages import Call, CallTool, Complete, Completion
from toolhall.model.text import clean_text
from toolhall.pipeline.rate_buckets import Charge, Rate, RateBucket, take_charges
from toolhall.pipeline.states import Equipped, Found, StageChain
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import CompletionRunner, Entry

MAX_VALUES = 100  # MCP allows no more
MAX_VALUE_CHARS = 1_024
MAX_COLLECTED = 100_000  # that a function may return
COMPLETION_RATE = Rate(per_second=20, burst=40)
COMPLETION_SECONDS = 10.0
_log = logging.getLogger("toolhall")


class Completer:
    """Answers requests for completions; the only way to a completion function."""

    def __init__(self, registry: Registry, stages: StageChain, new_call: Callable[[CallTool, Caller], Call]) -> None:
        self._registry = registry
        self._stages = stages
        self._new_call = new_call
        self._bucket = RateBucket(COMPLETION_RATE)
        self.count = 0  # of completions that were answered

    async def complete(self, request: Complete, caller: Caller) -> Completion | ToolhallError:
        """Return completions, or the error for a name, an argument or a caller that has none."""
        try:
            wait = take_charges((Charge.of(self._bucket, caller.rate_limit_key, 1.0),), time.monotonic())
            if wait > 0.0:
                raise Limited(wait)
            completion = await self._complete(request, caller)
        except ToolhallError as error:
            return error
        except Exception:  # noqa: BLE001 - a fault of ours ends one request, never the server
            _log.exception("internal error while answering Complete")
            return Broken()
        self.count += 1
        return completion

    async def _complete(self, request: Complete, caller: Caller) -> Completion:
        call, found = self._find(request, caller)
        entry, verdict = found.entry, self._stages.authorize(found).verdict
        if request.argument not in entry.tool.input.get("properties", {}):
            reason = f"this {entry.tool.kind} has no argument of this name"
            raise BadArguments([Problem(f"/{escape_pointer(clean_text(request.argument[:128]))}", reason)])
        completer = entry.completions.get(request.argument)
        match completer:
            case None:
                return Completion()
            case tuple():
                return _cut(matching_texts(completer, request.typed))
            case CompletionRunner():
                if not isinstance(verdict, Allow) or verdict.conditional:
                    return Completion()
        body = completing_entry(entry, completer)
        arguments = {"typed": request.typed, "given": dict(request.given)}
        # Without credentials: a completion function gets none, so there is nothing to resolve.
        raw = await self._stages.run(Equipped(call, body, verdict, arguments))
        values = completed_texts(raw.value, entry)
        return _cut(values if completer.takes_typed else matching_texts(values, request.typed))

    def _find(self, request: Complete, caller: Caller) -> tuple[Call, Found]:
        """Return the call and what it found; the same NotFound for what is not there and for what is not visible."""
        name = request.name
        if request.kind == "resource":
            entry = self._registry.snapshot.resources.find_template(name)
            name = f":{name}" if entry is None else entry.id  # which no id begins with: the name of no resource is one
        asked = CallTool(name, {}, request.dialect, requested_name=request.name, kind=request.kind)
        call = self._new_call(asked, caller)
        return call, self._stages.find(call)


def completing_entry(entry: Entry, completer: CompletionRunner) -> Entry:
    """Return the entry that runs the function which completes an argument of this one."""
    tool = msgspec.structs.replace(entry.tool, timeout=COMPLETION_SECONDS)
    return msgspec.structs.replace(entry, runner=completer.runner, tool=tool)


def matching_texts(values: Iterable[str], typed: str) -> list[str]:
    """Return the values that begin with what was typed; letter case does not count."""
    start = typed.casefold()
    return [value for value in values if value.casefold().startswith(start)]


def completed_texts(values: object, entry: Entry) -> list[str]:
    """Return what a completion function returned as clean texts; raises BadOutput for anything else."""
    if not isinstance(values, list | tuple) or len(values) > MAX_COLLECTED:
        _log.error("a completion of %s returned something other than a list of texts", entry.id)
        raise BadOutput("the completion returned something other than a list of texts")
    return [clean_text(str(value)[:MAX_VALUE_CHARS]) for value in values]


def _cut(values: list[str]) -> Completion:
    return Completion(tuple(values[:MAX_VALUES]), len(values))
