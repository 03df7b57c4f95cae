"""`toolhall replay`: recorded calls against the tools as they are now, and which answers changed."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from toolhall.app import Toolhall
from toolhall.cli.failure import CommandFailed
from toolhall.cli.logs import start_logging
from toolhall.cli.progress import counted
from toolhall.cli.replaying.dry import dry_hall
from toolhall.cli.replaying.recorded import Recorded, read_recorded
from toolhall.cli.replaying.report import KINDS, Kind, Replayed, Report
from toolhall.cli.replaying.run import Replay
from toolhall.cli.screen import BOLD, DIM, RED, YELLOW, note, print_json, strays_aside, styled, visible, visible_json
from toolhall.cli.waiting import waiting
from toolhall.model.json import Json

_COLOURS: dict[Kind, str] = {"same": DIM, "changed": YELLOW, "refused": RED, "failed": RED, "gone": RED, "skipped": DIM}
_WIDEST = 80


@dataclass(frozen=True)
class ReplayOptions:
    """What `toolhall replay` takes besides the recordings and the target.

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
    recorded = read_recorded(recordings, options.tool)
    with dry_hall(target) as hall:
        report = _run(hall, recorded, writes=options.writes)
    if options.json:
        about = {"calls": recorded.calls, "repeated": recorded.repeated, "unreadable": recorded.unreadable}
        print_json({"ok": report.ok, **about, **report.document()})
    else:
        _show(report)
    said = _summary(report, recorded)
    if not report.ok:
        raise CommandFailed(said)
    note(said)


def _run(hall: Toolhall, recorded: Recorded, *, writes: bool) -> Report:
    report, replaying = Report(), Replay(hall.hall, writes=writes)

    async def run_all() -> None:
        for recording in recorded:
            report.add(await replaying.run(recording))

    with waiting(f"Replaying {counted(len(recorded), 'call')}"), strays_aside(), asyncio.Runner() as runner:
        runner.run(hall.enter())
        runner.run(run_all())
        runner.run(hall.lifespans.leave())
    return report


def _show(report: Report) -> None:
    for tool, counts in report.counts.items():
        numbers = (styled(f"{counts[kind]:,} {kind}", _COLOURS[kind], sys.stdout) for kind in KINDS if counts[kind])
        print(f"{styled(visible(tool), BOLD, sys.stdout)}: {', '.join(numbers)}")
        for replayed in report.notable.get(tool, ()):
            _show_call(replayed)
        for kind in ("gone", "skipped"):
            for (_, of, reason), count in report.did_not_run(kind):
                if of == tool:
                    print(f"  {kind} {count:,}: {visible(reason)}")


def _show_call(replayed: Replayed) -> None:
    why = f": {visible(replayed.reason)}" if replayed.reason else ""
    print(f"  {styled(replayed.kind, _COLOURS[replayed.kind], sys.stdout)} {_cut(replayed.arguments)}{why}")
    for difference in replayed.differences:
        print(f"    {visible(difference.path or '/')}: {_cut(difference.old)} -> {_cut(difference.new)}")


def _cut(value: Json) -> str:
    if value is msgspec.UNSET:
        return "nothing"
    shown = visible_json(value)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 3]}..."


def _summary(report: Report, recorded: Recorded) -> str:
    numbers = [f"{report.total(kind):,} {kind}" for kind in KINDS if report.total(kind)]
    if recorded.repeated:
        numbers.append(f"{recorded.repeated:,} repeated and run once")
    said = f"{counted(recorded.calls, 'recorded call')}: {', '.join(numbers) or 'none to run'}"
    if report.hidden:
        said += f"; {counted(report.hidden, 'redacted place')} not compared"
    if recorded.unreadable:
        said += f"; {counted(recorded.unreadable, 'line')} could not be read"
    if not report.total("same", "changed", "refused", "failed", "gone"):
        said += "; nothing could be compared"
    return said
