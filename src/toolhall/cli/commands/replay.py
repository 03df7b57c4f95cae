"""`toolhall replay`: runs recorded calls against the current tools and reports which answers changed.

RecordedCalls reads the recordings, Replayer runs them through the pipeline, ReplayReport collects the outcomes.
"""

import asyncio
import contextlib
import hashlib
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from cyclopts import Parameter

from toolhall.app import Toolhall
from toolhall.cli.clients.base import tool_info
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.output import (
    BOLD,
    DIM,
    RED,
    YELLOW,
    note,
    pluralize,
    print_json,
    stdout_to_stderr,
    styled,
    visible,
    visible_json,
)
from toolhall.cli.progress import show_spinner
from toolhall.cli.settings import read_config_with_data
from toolhall.cli.startup import build_app
from toolhall.cli.upstream_files import wait_listed
from toolhall.config import Config
from toolhall.contracts.digest import JsonDifference, canonical_json, diff_json
from toolhall.model.call_records import RECORDINGS_FILE, Recording, recorded_answer, recorded_outcome
from toolhall.model.caller import LOCAL, STEP_UP_FROM, effective_level
from toolhall.model.content import Result
from toolhall.model.errors import Crashed, Refused, ToolFailed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode, walk_levels
from toolhall.model.messages import Answer, Answered, CallTool, CompletedCall, InputRequiredSignal, NullLink, Question
from toolhall.model.names import matches_any
from toolhall.model.tool import Tool
from toolhall.pipeline.call_recorder import ANSWER, ARGUMENTS, RedactedCall, ToolSecrecy
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.redaction.secret_patterns import REDACTED
from toolhall.registry.snapshot import Entry

_MAX_DEPTH = 200  # more than any recorded call; deeper values could not be compared
_HOW_TO_RECORD = "calls are recorded where the setting 'record' names their tools: record = [\"Weather.*\"]"
MAX_DIFFERENCES = 5
_DIALECT = "replay"
_NOBODY_TO_ASK = "and a replay has nobody to ask"
ReplayOutcome: TypeAlias = Literal["same", "changed", "refused", "failed", "gone", "skipped"]
REPLAY_OUTCOMES: tuple[ReplayOutcome, ...] = ("same", "changed", "refused", "failed", "gone", "skipped")
_decode = msgspec.json.Decoder(Recording).decode
_UNLIMITED_RATE = 1e9  # recordings of a week are replayed in a minute
_COLOURS: dict[ReplayOutcome, str] = {
    "same": DIM,
    "changed": YELLOW,
    "refused": RED,
    "failed": RED,
    "gone": RED,
    "skipped": DIM,
}
_MAX_VALUE_WIDTH = 80


@dataclass(frozen=True)
class ReplayOptions:
    """Options of `toolhall replay`.

    Parameters
    ----------
    tool
        Only calls of tools whose id matches: Weather.*, Weather.Get@1.*
    writes
        Also run tools that change something, or do not say that they only read; they really run.
    json
        Print {"ok", "calls", "same", "changed", "refused", "failed", "gone", "skipped", ...}.
    """

    tool: str = "*"
    writes: bool = False
    json: bool = False


_DEFAULTS = ReplayOptions()


def replay(
    recordings: Path,
    target: str | None = None,
    /,
    *,
    options: Annotated[ReplayOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Run recorded calls against a target and compare the answers; exit 1 if any changed, or none could be compared.

    Parameters
    ----------
    recordings
        A data folder, or its recordings.jsonl; calls are kept there if the setting 'record' names their tools.
    target
        file.py, file.py:object, package.module, a folder, definitions.json, mcp.json; the example toolkit if none.
    """
    start_logging(None)
    recorded = read_recordings(recordings, options.tool)
    with ephemeral_app(target) as hall:
        report = _run_replay(hall, recorded, writes=options.writes)
    if options.json:
        about = {"calls": recorded.calls, "repeated": recorded.repeated, "unreadable": recorded.unreadable}
        print_json({"ok": report.ok, **about, **report.document()})
    else:
        _print_report(report)
    summary = _summary(report, recorded)
    if not report.ok:
        raise CommandError(summary)
    note(summary)


@contextlib.contextmanager
def ephemeral_app(target: str | None) -> Generator[Toolhall, None, None]:
    """A hall with the target's tools and no data folder; tools of an author's own Toolhall are copied to it."""
    config = _ephemeral_config(read_config_with_data())
    loaded = build_app([target] if target else [], config, served=True)
    with loaded:
        if loaded.config is config:
            yield loaded
            return
        with Toolhall(config=_ephemeral_config(loaded.config)) as hall:
            hall.registry.add(loaded.registry.snapshot.all_entries)
            hall.lifespans = loaded.lifespans
            yield hall


def _ephemeral_config(config: Config) -> Config:
    return msgspec.structs.replace(
        config,
        data=None,
        record=(),
        search=False,
        pinned=(),
        calls_per_second=_UNLIMITED_RATE,
        call_burst=_UNLIMITED_RATE,
    )


class RecordedCalls:
    """The newest recording of each distinct call; stored as text, because decoded values take much more memory."""

    def __init__(self) -> None:
        self._newest: dict[object, tuple[float, bytes]] = {}
        self.calls = 0
        self.unreadable = 0

    @property
    def repeated(self) -> int:
        """How many recordings were superseded by a later one with the same arguments."""
        return self.calls - len(self._newest)

    def add(self, line: bytes, glob: str) -> None:
        """Add one line of the file; an unreadable one, cut off by a crash, is counted."""
        try:
            recording = _decode(line)
            key = _call_key(recording)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, ValueError):
            self.unreadable += 1
            return
        if not matches_any((glob,), recording.tool):
            return
        self.calls += 1
        if key not in self._newest or self._newest[key][0] <= recording.time:
            self._newest[key] = recording.time, line

    def __iter__(self) -> Iterator[Recording]:
        """The recordings, decoded one by one, in the order of the file."""
        for _, line in self._newest.values():
            yield _decode(line)

    def __len__(self) -> int:
        return len(self._newest)


def read_recordings(path: Path, glob: str) -> RecordedCalls:
    """The recordings in a file or data folder of tools that match the pattern."""
    file = path / RECORDINGS_FILE if path.is_dir() else path
    if not file.exists():
        raise UsageError(f"there is no file {file}; {_HOW_TO_RECORD}")
    found = RecordedCalls()
    try:
        with file.open("rb") as lines:
            for line in lines:
                if line.strip():
                    found.add(line, glob)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None
    if found.unreadable and not found.calls and not len(found):
        raise CommandError(f"no line of {file} is a recorded call of {glob!r}; {_HOW_TO_RECORD}")
    return found


def _call_key(recording: Recording) -> object:
    """What makes two calls the same: tool without version, and arguments; redacted arguments are never the same."""
    if sum(1 for _ in walk_levels([recording.arguments, recording.answer])) > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if any(pointer.startswith("/arguments") for pointer in (*recording.redacted, *recording.omitted)):
        return object()
    if not isinstance(recording.arguments, dict):
        raise TypeError("arguments are an object")
    return recording.tool.partition("@")[0], hashlib.sha256(canonical_json(recording.arguments)).digest()


class ReplayedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one replayed call; `tool` has no version, `recorded` is the id that answered originally."""

    kind: ReplayOutcome
    tool: str
    recorded: str
    arguments: Json = None
    reason: str = ""
    differences: tuple[JsonDifference, ...] = ()
    hidden: int = 0  # number of redacted values that were not compared


class ReplayReport:
    """Collects the outcomes of replayed calls by tool."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[ReplayOutcome]] = {}
        self.notable: dict[str, list[ReplayedCall]] = {}
        self.grouped: Counter[tuple[ReplayOutcome, str, str]] = Counter()
        self.redacted = 0

    def add(self, replayed: ReplayedCall) -> None:
        """Add one call; those that did not run are counted by reason only."""
        self.counts.setdefault(replayed.tool, Counter())[replayed.kind] += 1
        self.redacted += replayed.hidden
        if replayed.kind in ("gone", "skipped"):
            self.grouped[replayed.kind, replayed.tool, replayed.reason] += 1
        elif replayed.kind != "same":
            self.notable.setdefault(replayed.tool, []).append(replayed)

    def total(self, *kinds: ReplayOutcome) -> int:
        """How many calls of all tools had one of these outcomes."""
        return sum(counts[kind] for counts in self.counts.values() for kind in kinds)

    @property
    def ok(self) -> bool:
        """Whether at least one call was compared, and none differs, failed or is gone."""
        return self.total("same") > 0 and not self.total("changed", "refused", "failed", "gone")

    def document(self) -> JsonObject:
        """The members that `replay --json` prints."""
        return {
            "same": self.total("same"),
            "hidden": self.redacted,
            "changed": [
                {**_call_summary(each), "differences": each.differences} for each in self._with_outcome("changed")
            ],
            "refused": [{**_call_summary(each), "reason": each.reason} for each in self._with_outcome("refused")],
            "failed": [{**_call_summary(each), "reason": each.reason} for each in self._with_outcome("failed")],
            "gone": [{"tool": tool, "calls": count} for (_, tool, _), count in self.did_not_run("gone")],
            "skipped": [
                {"tool": tool, "calls": count, "reason": reason}
                for (_, tool, reason), count in self.did_not_run("skipped")
            ],
        }

    def did_not_run(self, kind: ReplayOutcome) -> Iterator[tuple[tuple[ReplayOutcome, str, str], int]]:
        """The tools and reasons of calls that did not run, with their number."""
        return (item for item in self.grouped.items() if item[0][0] == kind)

    def _with_outcome(self, kind: ReplayOutcome) -> Iterator[ReplayedCall]:
        return (each for several in self.notable.values() for each in several if each.kind == kind)


def _call_summary(replayed: ReplayedCall) -> JsonObject:
    return {"tool": replayed.tool, "recorded": replayed.recorded, "arguments": replayed.arguments}


class Replayer:
    """Replays calls against the newest version of each tool; only tools that read, unless `writes`."""

    def __init__(self, dispatcher: Dispatcher, *, writes: bool) -> None:
        self._dispatcher = dispatcher
        self._writes = writes
        self._tools: dict[str, _ToolPlan] = {}

    async def run(self, recording: Recording) -> ReplayedCall:
        """Replay one recorded call."""
        name = recording.tool.partition("@")[0]
        replayed = ReplayedCall(kind="same", tool=name, recorded=recording.tool)
        entry = self._dispatcher.registry.snapshot.find_any(name)
        if entry is None:
            return _with_result(replayed, "gone", "there is no such tool, resource or prompt any more")
        if name not in self._tools:
            self._tools[name] = _ToolPlan(ToolSecrecy.of(entry.tool), _skip_reason(entry.tool, writes=self._writes))
        known = self._tools[name]
        why = known.skip_reason or _incomparable_reason(recording)
        if why:
            return _with_result(replayed, "skipped", why)
        ask = _recorded_request(entry, name, recording.arguments)
        return _classify(
            replayed, recording, await self._dispatcher.answer(ask, LOCAL, _UnansweringLink()), known.secrets
        )


def _recorded_request(entry: Entry, name: str, arguments: JsonObject) -> CallTool:
    """The request with the recorded arguments: of a resource its URI, and of a prompt their texts."""
    size = len(encode(arguments))
    if entry.uri_template is not None:
        values = {
            key: [_as_text(each) for each in value] if isinstance(value, list) else _as_text(value)
            for key, value in arguments.items()
        }
        return CallTool(entry.uri_template.expand(values), {}, _DIALECT, size, kind="resource")
    if entry.tool.prompt is not None:
        texts: JsonObject = {key: _as_text(value) for key, value in arguments.items()}
        return CallTool(entry.id, texts, _DIALECT, size, kind="prompt")
    return CallTool(name, arguments, _DIALECT, size)


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else encode(value).decode()


class _UnansweringLink(NullLink):
    """Raises InputRequiredSignal for every question: with a refusal the tool might return another result."""

    def can(self, feature: str) -> bool:  # noqa: ARG002 - so that a tool that can ask does
        return True

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        raise InputRequiredSignal(questions)


class _ToolPlan(msgspec.Struct, frozen=True):
    """What is the same for every call of a tool: its secrets, and why it is skipped."""

    secrets: ToolSecrecy
    skip_reason: str | None


def _skip_reason(tool: Tool, *, writes: bool) -> str | None:
    """Why this tool is skipped; None if it is run."""
    offer = tool_info(tool)
    if effective_level(tool) >= STEP_UP_FROM:
        return f"level {effective_level(tool)} needs a person's yes, {_NOBODY_TO_ASK}"
    if writes or offer.reads_only:
        return None
    said = f"its effect is {offer.effect!r}" if offer.effect else "it does not say that it only reads"
    return f"{said}; --writes runs it"


def _incomparable_reason(recording: Recording) -> str | None:
    """Why this call cannot be replayed and compared; None if it can."""
    if ARGUMENTS in recording.omitted or ANSWER in recording.omitted:
        return f"its {'arguments were' if ARGUMENTS in recording.omitted else 'answer was'} too large to be recorded"
    if any(pointer.startswith(ARGUMENTS) for pointer in recording.redacted):
        return "its arguments were redacted"
    return "its answer was redacted" if _is_fully_redacted(recording.answer) else None


def _classify(replayed: ReplayedCall, recording: Recording, answer: Answer, secrets: ToolSecrecy) -> ReplayedCall:
    match answer:
        case CompletedCall(_, result):
            return _compare(replayed, recording, result, secrets)
        case ToolFailed() if not isinstance(answer, Crashed):
            return _compare(replayed, recording, answer, secrets)
        case ToolhallError():
            shown = secrets.redact_call(recording.arguments, {"content": [answer.message]})
            ended = msgspec.structs.replace(replayed, arguments=shown.arguments)
            return _with_result(
                ended, "refused" if isinstance(answer, Refused) else "failed", shown.answer["content"][0]
            )
        case _:
            return _with_result(replayed, "skipped", f"it asks a person, {_NOBODY_TO_ASK}")


def _compare(
    replayed: ReplayedCall, recording: Recording, ended: Result | ToolFailed, secrets: ToolSecrecy
) -> ReplayedCall:
    """Compare the new result with the recorded one; secrets in the new one are redacted, because it is printed."""
    shown = secrets.redact_call(recording.arguments, recorded_answer(ended))
    if _is_fully_redacted(shown.answer):
        return _with_result(replayed, "skipped", "its answer is redacted now")
    hidden = _redacted_paths(recording, shown)
    found = diff_json(recording.answer, shown.answer, hidden, MAX_DIFFERENCES)
    if recording.outcome != recorded_outcome(ended):
        found.insert(0, JsonDifference("/outcome", recording.outcome, recorded_outcome(ended)))
    return msgspec.structs.replace(
        replayed,
        kind="changed" if found else "same",
        arguments=shown.arguments,
        differences=tuple(found),
        hidden=len(hidden),
    )


def _redacted_paths(recording: Recording, shown: RedactedCall) -> frozenset[str]:
    places = (*recording.redacted, *shown.redacted)
    return frozenset(place.removeprefix(ANSWER) for place in places if place.startswith(ANSWER))


def _is_fully_redacted(answer: Json) -> bool:
    """Whether everything in it was redacted."""
    match answer:
        case dict():
            return bool(answer) and all(map(_is_fully_redacted, answer.values()))
        case list():
            return bool(answer) and all(map(_is_fully_redacted, answer))
        case _:
            return bool(answer == REDACTED)


def _with_result(replayed: ReplayedCall, kind: ReplayOutcome, reason: str) -> ReplayedCall:
    return msgspec.structs.replace(replayed, kind=kind, reason=reason)


def _run_replay(app: Toolhall, recorded: RecordedCalls, *, writes: bool) -> ReplayReport:
    report, replaying = ReplayReport(), Replayer(app.dispatcher, writes=writes)

    async def run_all() -> None:
        for recording in recorded:
            report.add(await replaying.run(recording))

    async def run_with_upstreams() -> None:
        async with app.lifespan():
            await wait_listed(app)
            await run_all()

    with show_spinner(f"Replaying {pluralize(len(recorded), 'call')}"), stdout_to_stderr(), asyncio.Runner() as runner:
        if app.has_upstreams:
            runner.run(run_with_upstreams())
            return report
        runner.run(app.enter())
        runner.run(run_all())
        runner.run(app.lifespans.leave())
    return report


def _print_report(report: ReplayReport) -> None:
    for tool, counts in report.counts.items():
        numbers = (
            styled(f"{counts[kind]:,} {kind}", _COLOURS[kind], sys.stdout) for kind in REPLAY_OUTCOMES if counts[kind]
        )
        print(f"{styled(visible(tool), BOLD, sys.stdout)}: {', '.join(numbers)}")
        for replayed in report.notable.get(tool, ()):
            _print_call(replayed)
        for kind in ("gone", "skipped"):
            for (_, of, reason), count in report.did_not_run(kind):
                if of == tool:
                    print(f"  {kind} {count:,}: {visible(reason)}")


def _print_call(replayed: ReplayedCall) -> None:
    why = f": {visible(replayed.reason)}" if replayed.reason else ""
    print(f"  {styled(replayed.kind, _COLOURS[replayed.kind], sys.stdout)} {_shorten(replayed.arguments)}{why}")
    for difference in replayed.differences:
        print(f"    {visible(difference.path or '/')}: {_shorten(difference.old)} -> {_shorten(difference.new)}")


def _shorten(value: Json) -> str:
    if value is msgspec.UNSET:
        return "nothing"
    shown = visible_json(value)
    return shown if len(shown) <= _MAX_VALUE_WIDTH else f"{shown[: _MAX_VALUE_WIDTH - 3]}..."


def _summary(report: ReplayReport, recorded: RecordedCalls) -> str:
    numbers = [f"{report.total(kind):,} {kind}" for kind in REPLAY_OUTCOMES if report.total(kind)]
    if recorded.repeated:
        numbers.append(f"{recorded.repeated:,} repeated and run once")
    summary = f"{pluralize(recorded.calls, 'recorded call')}: {', '.join(numbers) or 'none to run'}"
    if report.redacted:
        summary += f"; {pluralize(report.redacted, 'redacted place')} not compared"
    if recorded.unreadable:
        summary += f"; {pluralize(recorded.unreadable, 'line')} could not be read"
    if not report.total("same", "changed", "refused", "failed", "gone"):
        summary += "; nothing could be compared"
    return summary
