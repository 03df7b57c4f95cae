"""Files that list MCP servers, as TARGETs of `serve` and for `add`: UpstreamFile reads one, and again when it changed.

Theory of operation. `load_targets` yields an UpstreamFile for every file that `read_upstream_file` recognises by its
content. `serve` gives the upstreams to the hall, and `follow_files` enters a task in the hall's own life cycle that
looks at the modification times every second. A changed file is read anew; the hall touches only what has changed. A
file that cannot be read any more changes nothing, and the log says so.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from toolhall.app import Toolhall
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.output import note, visible
from toolhall.config import BadConfig, Config, load_config
from toolhall.model.upstream import Upstream

if TYPE_CHECKING:
    from toolhall.dialects.client_files.server import ClientFile, ClientServer
    from toolhall.dialects.findings import Finding

CLIENT_SUFFIXES = (".json", ".jsonc", ".toml")
_MAX_BYTES = 1024 * 1024
_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.05
FIRST_LIST_SECONDS = 90.0  # a command may install itself first
_OWN_VARIABLES = "TOOLHALL_"  # the hall's own secrets are among them
_log = logging.getLogger(__name__)
_Stamp: TypeAlias = tuple[int, int, int] | None  # inode, time of the last change in ns, size


def client_variables(file: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What variables in a client's file may name: this environment without the hall's own part of it, and folders."""
    folder = file.absolute().parent
    if folder.name.startswith("."):  # .vscode, .cursor, .gemini
        folder = folder.parent
    found = {name: value for name, value in environment.items() if not name.startswith(_OWN_VARIABLES)}
    return found | {
        "userHome": str(Path.home()),
        "workspaceFolder": str(folder),
        "workspaceFolderBasename": folder.name,
        "pathSeparator": os.sep,
        "/": os.sep,
    }


def read_upstream_file(file: Path, variables: Mapping[str, str] | None = None) -> "ClientFile | None":
    """The servers of a client's file; None if it is no such file. Raises CommandError for one that cannot be read."""
    from toolhall.dialects.client_files.commented_json import BadClientText  # lazy: only for such files
    from toolhall.dialects.client_files.reader import read_client_file  # lazy: as above

    text = _text_of(file)
    if text is None:
        return None
    try:
        return read_client_file(
            text, client_variables(file) if variables is None else variables, _env_file_reader(file)
        )
    except BadClientText as bad:
        if file.suffix == ".json" and "mcpServers" not in text:
            return None  # definitions of tools, or no JSON at all: their reader says what is wrong
        raise CommandError(visible(f"{file}: {bad}")) from None


def server_problems(file: str, found: "ClientFile") -> list[str]:
    """One line for each server that cannot be used or waits, with the file, the server and what to do."""
    return [line for server in found.servers for line in _problems_of(file, server)]


def lint_upstream_file(file: Path) -> "list[tuple[int, Finding]] | None":
    """The findings of a client's file, each with its line; None if it is no such file."""
    from toolhall.dialects.findings import Finding  # lazy: only for lint

    if file.suffix.lower() not in CLIENT_SUFFIXES or not file.is_file():
        return None
    try:
        found = read_upstream_file(file)
    except CommandError as bad:
        return None if file.suffix == ".json" else [(1, Finding("", "client-file/malformed", bad.message))]
    if found is None:
        return None
    whole = [(1, Finding(each.path, "client-file/not-read", each.reason, "warning")) for each in found.losses]
    return [*whole, *((server.line or 1, each) for server in found.servers for each in _findings_of(server))]


def _findings_of(server: "ClientServer") -> "Iterator[Finding]":
    from toolhall.dialects.findings import Finding  # lazy: only for lint

    path = f"/{server.key}"
    if server.problem is not None:
        yield Finding(path, "client-file/unusable", server.problem)
    for loss in server.losses:
        yield Finding(loss.path, "client-file/not-read", loss.reason, "warning")
    for risk in server.notes:
        yield Finding(path, "client-file/risk", risk, "warning")
    for name in (*server.missing, *server.missing_secrets):
        yield Finding(path, "client-file/variable", f"set the variable {name}, or the server waits", "warning")


class UpstreamFile:
    """A target that lists servers."""

    source: Literal["command line", "file"] = "command line"

    def __init__(self, path: str, found: "ClientFile | None" = None) -> None:
        self.path = path
        self._found = found

    def read(self, *, local: bool) -> tuple[list[Upstream], list[str]]:
        """Its upstreams as they are in the file now, and a line for each server with a problem."""
        found = self._found or read_upstream_file(Path(self.path))
        self._found = None  # the next time it has changed
        if found is None:
            raise CommandError(f"{self.path} lists no servers any more")
        upstreams = [
            Upstream(
                name=each.name,
                settings=each.settings,
                source=self.source,
                where=self.path,
                missing=each.missing,
                named_by_person=local,
            )
            for each in found.servers
            if each.settings is not None
        ]
        return upstreams, server_problems(self.path, found)


class SettingsFile:
    """The settings file, of which only the upstreams can change while a hall runs."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, *, local: bool) -> tuple[list[Upstream], list[str]]:
        """The upstreams of the file as it is now; problems are raised."""
        try:
            config = load_config(Path(self.path))
        except BadConfig as bad:
            raise CommandError(str(bad)) from None
        return upstreams_of(config, self.path, local=local), []


def upstreams_of(config: Config, where: str, *, local: bool) -> list[Upstream]:
    """The upstreams of the settings."""
    return [
        Upstream(name=name, settings=settings, source="file", where=where, named_by_person=local)
        for name, settings in config.upstreams.items()
    ]


def give_upstreams(hall: Toolhall, files: Sequence[UpstreamFile]) -> list[str]:
    """Give the upstreams of files to a hall; return a line for each server with a problem."""
    local = hall.config.profile == "local"
    homes = {name.casefold(): "the settings" for name in hall.config.upstreams}
    problems: list[str] = []
    for file in files:
        upstreams, said = file.read(local=local)
        for each in upstreams:
            if (home := homes.setdefault(each.name.casefold(), file.path)) != file.path:
                raise UsageError(f"two upstreams are called {each.name!r}, in {home} and in {file.path}; rename one")
        hall.replace_upstreams(file.path, upstreams)
        problems += said
    return problems


async def wait_listed(hall: Toolhall) -> None:
    """Wait for the first try of every upstream; of those that fail, what was listed before is served."""
    manager = hall.upstreams.manager
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FIRST_LIST_SECONDS):
            while any(each.state in ("new", "connecting") for each in manager.statuses()):  # noqa: ASYNC110 - a few looks
                await asyncio.sleep(_POLL_SECONDS)
    for status in manager.statuses():
        if status.state not in ("ready", "off"):
            note(visible(f"{status.name} is {status.state}: {status.reason or 'it was not reached in time'}"))


def follow_files(hall: Toolhall, files: Sequence[UpstreamFile | SettingsFile]) -> None:
    """Read these files again when they change, as long as the hall is open."""
    if files:
        hall.lifespans.add("files of upstreams", lambda: _following(hall, files))


@asynccontextmanager
async def _following(hall: Toolhall, files: Sequence[UpstreamFile | SettingsFile]) -> AsyncGenerator[None]:
    stamps = {file.path: _stamp(file.path) for file in files}
    task = asyncio.create_task(_look(hall, files, stamps))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _look(hall: Toolhall, files: Sequence[UpstreamFile | SettingsFile], stamps: dict[str, _Stamp]) -> None:
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        for file in files:
            stamp = _stamp(file.path)
            if stamp is None or stamp == stamps[file.path]:  # an editor that replaces a file is half done
                continue
            stamps[file.path] = stamp
            await _read_again(hall, file)


async def _read_again(hall: Toolhall, file: UpstreamFile | SettingsFile) -> None:
    try:
        upstreams, problems = await asyncio.to_thread(file.read, local=hall.config.profile == "local")
    except CommandError as failed:
        _log.warning("%s; the upstreams of %s stay as they were", failed.message, file.path)
        return
    for problem in problems:
        _log.warning("%s", problem)
    hall.replace_upstreams(file.path, upstreams)


def _stamp(path: str) -> _Stamp:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _text_of(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None
    try:
        return raw.decode("utf-8-sig") if len(raw) <= _MAX_BYTES else None
    except UnicodeDecodeError:
        return None


def _env_file_reader(file: Path) -> Callable[[str], str | None]:
    def read(name: str) -> str | None:
        path = file.absolute().parent / Path(name).expanduser()
        try:
            with path.open(encoding="utf-8") as opened:
                return opened.read(_MAX_BYTES)
        except (OSError, UnicodeDecodeError, ValueError):
            return None

    return read


def _problems_of(file: str, server: "ClientServer") -> list[str]:
    from toolhall.dialects.client_files.variables import secret_name  # lazy: only for such files

    place = visible(f"{file}{'' if server.line is None else f', line {server.line}'}: {server.key}")
    if server.problem is not None:
        return [f"{place} is left out: {visible(server.problem)}"]
    lines = [f"{place} waits: the variable {visible(name)} is not set" for name in server.missing]
    for name in server.missing_secrets:
        shown = visible(name)
        lines.append(
            f"{place} waits: the variable {shown} is not set; set it, or keep its value with"
            f" 'toolhall secret set {visible(secret_name(name))}'"
        )
    return lines
