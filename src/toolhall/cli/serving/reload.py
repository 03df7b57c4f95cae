"""Serves with one process that is started again whenever a file of the targets changes."""

import importlib.util
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from toolhall.cli.screen import note
from toolhall.cli.serving.announce import announce
from toolhall.cli.serving.family import Child, stop_signal
from toolhall.cli.serving.listen import listen, url_of
from toolhall.cli.serving.plan import Plan

_LOOK_SECONDS = 0.5
_MOST_FILES = 5_000
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Seen: TypeAlias = dict[Path, tuple[int, int]]


def run(plan: Plan) -> int:
    """Bind once, so that the port stays and callers wait in line while the process changes."""
    with stop_signal() as stopped, listen(plan.config.host, plan.config.port) as listening:
        announce(url_of(listening), plan.config.name, data=plan.config.data, json=plan.json)
        folders = tuple(_watched(plan.targets))
        while not stopped.is_set():
            seen = _look(folders)
            child = Child(plan, listening)
            changed = _wait(child, folders, seen, stopped)
            child.stop()
            child.gone()
            if changed:
                note(f"{changed.name} changed; serving it again")
    return 0


def _wait(child: Child, folders: tuple["Watched", ...], seen: Seen, stopped: threading.Event) -> Path | None:
    """The file that changed; None when it is time to stop. A child that failed is left to the next change."""
    told = False
    while not stopped.wait(_LOOK_SECONDS):
        now = _look(folders)
        if now != seen:
            return next(path for path in (*now, *seen) if now.get(path) != seen.get(path))
        if child.ended() is not None and not told:
            told = True
            note("waiting for a change")
    return None
