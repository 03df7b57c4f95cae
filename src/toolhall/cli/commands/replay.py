"""`toolhall replay`: runs recorded calls against the current tools and reports which answers changed."""

import asyncio
import contextlib
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.app import Toolhall
from toolhall.cli.errors import CommandError
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
from toolhall.cli.replayer import (
    REPLAY_OUTCOMES,
    RecordedCalls,
    ReplayedCall,
    Replayer,
    ReplayOutcome,
    ReplayReport,
    read_recordings,
)
from toolhall.cli.settings import read_config_with_data
from toolhall.cli.startup import build_app
from toolhall.config import Config
from toolhall.model.json import Json

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


@contextlib.contextmanager
def ephemeral_app(target: str | None) -> Generator[Toolhall, None, None]:
    """A hall with the target's tools and no data folder; tools of an author's own Toolhall are copied to it."""
    config = _ephemeral_config(read_config_with_data())
    loaded = build_app([target] if target else [], config)
    with loaded:
        if loaded.config is config:
            yield loaded
            return
        with Toolhall(config=_ephemeral_config(loaded.config)) as hall:
            hall.registry.add(loaded.registry.snapshot.entries)
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
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
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


def _run_replay(app: Toolhall, recorded: RecordedCalls, *, writes: bool) -> ReplayReport:
    report, replaying = ReplayReport(), Replayer(app.dispatcher, writes=writes)

    async def run_all() -> None:
        for recording in recorded:
            report.add(await replaying.run(recording))

    with show_spinner(f"Replaying {pluralize(len(recorded), 'call')}"), stdout_to_stderr(), asyncio.Runner() as runner:
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
