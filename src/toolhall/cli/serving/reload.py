"""Serves with one process that is started again whenever a file of the targets changes."""

import importlib.util
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from toolhall.cli.screen import note
from toolhall.cli.serving.announce import announce_plan
from toolhall.cli.serving.family import Child, stop_signal
from toolhall.cli.serving.listen import bound, url_of
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.standin import StandIn

_LOOK_SECONDS = 0.5
_MOST_FILES = 5_000
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Seen: TypeAlias = dict[Path, tuple[int, int]]


class Watched(NamedTuple):
    """A folder whose Python files matter, with those below it or without."""

    folder: Path
    deep: bool


def run(plan: Plan) -> int:
    """Bind once, so that the port stays and callers wait in line while the process changes."""
    with stop_signal() as stopped, bound(plan.config) as listening:
        announce_plan(url_of(listening), plan.config, plan)
        watch = Watch(tuple(_watched(plan.targets)))
        with StandIn(listening) as stand_in:
            while not stopped.is_set():
                watch.start()
                child = Child(plan, listening)
                changed = _wait(child, watch, stand_in, stopped)
                child.stop()
                child.gone()
                if changed:
                    note(f"{changed.name} changed; serving it again")
    return 0


class Watch:
    """Files, and whether one of them has changed since the last start."""

    def __init__(self, folders: tuple[Watched, ...]) -> None:
        self._folders = folders
        self._seen: Seen = {}

    def start(self) -> None:
        """What is there now is what will be served."""
        self._seen = _look(self._folders)

    def changed(self) -> Path | None:
        """A file that is not what it was."""
        seen, now = self._seen, _look(self._folders)
        return next((path for path in (*now, *seen) if now.get(path) != seen.get(path)), None)


def _wait(child: Child, watch: Watch, stand_in: StandIn, stopped: threading.Event) -> Path | None:
    """The file that changed; None when it is time to stop. Of a child that failed callers hear until then."""
    failed = False
    while not stand_in.wait(_LOOK_SECONDS, stopped, answering=failed):
        changed = watch.changed()
        if changed:
            return changed
        if child.ended() is not None and not failed:
            failed = True
            note("waiting for a change")
    return None


def _watched(targets: tuple[str, ...]) -> Iterator[Watched]:
    """A file's own folder (it may import its neighbours), a folder, or a whole package."""
    for target in targets:
        place = Path(f"{target.partition('.py:')[0]}.py") if ".py:" in target else Path(target)
        if place.is_dir():
            yield Watched(place, deep=True)
        elif place.suffix == ".py":
            yield Watched(place.parent, deep=False)
        else:
            yield from _package(target.partition(":")[0].partition(".")[0])


def _package(name: str) -> Iterator[Watched]:
    if (Path.cwd() / f"{name}.py").is_file():
        yield Watched(Path.cwd(), deep=False)
        return
    local = Path.cwd() / name
    spec = None if local.is_dir() else importlib.util.find_spec(name)
    for folder in [local] if local.is_dir() else (spec.submodule_search_locations or [] if spec else []):
        yield Watched(Path(folder), deep=True)


def _look(watched: tuple[Watched, ...]) -> Seen:
    """Every file with what a change of it changes."""
    seen: Seen = {}
    for each in watched:
        for file in _files(each):
            if len(seen) >= _MOST_FILES:
                break
            try:
                state = file.stat()
            except OSError:  # gone since it was listed
                continue
            seen[file] = (state.st_mtime_ns, state.st_size)
    return seen


def _files(watched: Watched) -> Iterator[Path]:
    if not watched.deep:
        yield from watched.folder.glob("*.py")
        return
    for folder, below, names in os.walk(watched.folder):
        below[:] = [name for name in below if name not in _SKIPPED and not name.startswith(".")]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))
