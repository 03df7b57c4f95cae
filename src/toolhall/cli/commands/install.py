"""`toolhall install`: writes a server into the configuration file of an MCP client."""

import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from toolhall.cli.clients.http import mcp_path
from toolhall.cli.documents.writers import open_atomic
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.install.json_edit import UneditableFile
from toolhall.cli.install.launch import default_name, stdio_server
from toolhall.cli.install.mcp_clients import (
    MCP_CLIENTS,
    ClientName,
    McpClient,
    NotSupportedByClient,
    RemoteServer,
    StdioServer,
    describe_entry,
)
from toolhall.cli.logs import start_logging
from toolhall.cli.output import GREEN, RED, YELLOW, is_interactive, note, print_json, styled, visible
from toolhall.cli.parameters import Yes
from toolhall.cli.prompts import ask_yes_no
from toolhall.cli.settings import read_config, with_example_services
from toolhall.cli.target_names import EXAMPLES_PACKAGE, is_url
from toolhall.config import Config
from toolhall.model.json import JsonObject
from toolhall.server.process import secret_env_in

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_FILE_BYTES = 32 * 1024 * 1024
_CONTEXT_LINES = 3
BACKUP_SUFFIX = ".toolhall.bak"


@dataclass(frozen=True)
class InstallOptions:
    """Options of `toolhall install`.

    Parameters
    ----------
    name
        What the client calls the server. [default: the setting name, or else the target's name]
    remove
        Remove the entry instead.
    print
        Print the entry, and write nothing.
    yes
        Do not ask before the file is changed.
    project
        Write the file of this project (such as .mcp.json) instead of the one in your home.
    file
        Write this file instead of the client's usual one.
    data
        Folder of records and keys of the server that the client starts. [default: one per project]
    config
        Settings file of the server that the client starts. [default: toolhall.toml, if there is one]
    env
        NAME=VALUE for the server that the client starts, or NAME alone to take its value from here; may be repeated.
    key_env
        With a URL: the variable of the client's environment that holds the key to send.
    json
        Print JSON.
    """

    name: str | None = None
    remove: bool = False
    print: bool = False
    yes: Yes = False
    project: bool = False
    file: Path | None = None
    data: Path | None = None
    config: Path | None = None
    env: tuple[str, ...] = ()
    key_env: str | None = None
    json: bool = False


_DEFAULTS = InstallOptions()


def install(
    client: ClientName, /, *targets: str, options: Annotated[InstallOptions, Parameter(name="*")] = _DEFAULTS
) -> int:
    """Write a server into the configuration file of an MCP client; the change is shown first.

    Parameters
    ----------
    client
        The program to write it for.
    targets
        file.py, file.py:object, package.module, a folder or definitions.json, which the client then starts; or the URL
        of a hall that runs. The example toolkit when left out.
    """
    known = MCP_CLIENTS[client]
    name = _server_name(options, targets)
    try:
        file = (options.file or known.config_file(project=options.project)).absolute()
        if options.remove:
            return _edit_file(known, file, name, None, options)
        entry = known.entry(name, _server_of(targets, options))
    except NotSupportedByClient as cannot:
        raise CommandError(str(cannot)) from None
    if not options.print:
        return _edit_file(known, file, name, entry, options)
    if options.json:
        print_json({"file": str(file), "name": name, "entry": entry})
    else:
        print(known.render_entry(name, entry), end="")
    return 0


def _server_name(options: InstallOptions, targets: tuple[str, ...]) -> str:
    if options.name is None:
        is_remote = bool(targets) and is_url(targets[0])
        return default_name(()) if is_remote else default_name(targets, read_config(options.config).name)
    if not _NAME.fullmatch(options.name):
        raise UsageError("--name may hold letters, digits, - and _, at most 64, and begins with a letter or a digit")
    return options.name


def _server_of(targets: tuple[str, ...], options: InstallOptions) -> StdioServer | RemoteServer:
    urls = [each for each in targets if is_url(each)]
    if not urls:
        if options.key_env is not None:
            raise UsageError("--key-env goes with a URL; a server that the client starts needs no key")
        return _stdio_server_of(targets, options)
    if len(targets) > 1:
        raise UsageError("give one URL, or targets")
    if options.data or options.config or options.env:
        raise UsageError(
            "--data, --config and --env are for a server that the client starts: leave them out with a URL"
        )
    if options.key_env is not None and not _VARIABLE.fullmatch(options.key_env):
        raise UsageError("--key-env is the name of a variable, such as TOOLHALL_KEY; never write the key itself")
    return RemoteServer(_mcp_url(urls[0]), options.key_env)


def _stdio_server_of(targets: tuple[str, ...], options: InstallOptions) -> StdioServer:
    server = stdio_server(targets, options.data, options.config, os.environ)
    added = dict(map(_parse_variable, options.env))
    left_out = secret_env_in(os.environ).keys() - added.keys()
    _check_servable(targets, options.config, added)
    if left_out:
        note(f"{', '.join(sorted(left_out))} is set here and not written to the file, because it is a secret")
    return StdioServer(server.command, server.args, {**server.env, **added})


def _check_servable(targets: tuple[str, ...], config: Path | None, added: Mapping[str, str]) -> None:
    """Load the targets as `toolhall list` does; raises CommandError if a server with them could not start.

    The variables of --env are set in this process for that: the tools may need them when they are imported.
    """
    if not targets:
        return
    from toolhall.cli.clients.local import LocalToolClient  # lazy: the whole hall

    start_logging(None)
    os.environ.update(added)
    levels = read_config(config).levels
    with with_example_services(Config(levels=levels), served=EXAMPLES_PACKAGE in targets) as settings:
        source = LocalToolClient(targets, settings)
        try:
            if not source.tools():
                raise CommandError(f"{' '.join(targets)} defines no tools, so there is nothing to serve")
        finally:
            source.close()


def _parse_variable(stated: str) -> tuple[str, str]:
    name, equals, value = stated.partition("=")
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f"--env {stated!r} is not NAME=VALUE")
    if not equals and name not in os.environ:
        raise UsageError(f"--env {name}: there is no such variable here; write {name}=VALUE")
    return name, value if equals else os.environ[name]


def _mcp_url(stated: str) -> str:
    wrong = UsageError(f"{stated!r} is not a URL of a hall; write it like http://127.0.0.1:8000")
    try:
        parts = urlsplit(stated)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise wrong
    if parts.username or parts.password:
        raise UsageError("the URL must hold no user name or password: it would be readable in the file")
    return parts._replace(path=mcp_path(parts.path), fragment="").geturl()


def _edit_file(mcp_client: McpClient, file: Path, name: str, entry: JsonObject | None, options: InstallOptions) -> int:
    before = _read_text(file)
    try:
        old = mcp_client.find_entry(before, name)
        if entry is None and old is None:
            raise CommandError(f"{file} has no server {name!r}; name the one to remove with --name")
        after = (
            _without_server(mcp_client, file, before, name)
            if entry is None
            else mcp_client.with_entry(before, name, entry)
        )
    except UneditableFile as bad:
        raise CommandError(
            f"{file} is left as it is, because it cannot be edited safely: {bad};"
            " correct the file, or take the entry from --print and add it by hand"
        ) from None
    changed, backup = after != before, None
    replaced = (
        describe_entry(old)
        if entry is not None and old is not None and describe_entry(old) != describe_entry(entry)
        else None
    )
    if changed:
        _print_change(file, before, after)
        if replaced is not None:
            warning = styled("warning:", YELLOW, sys.stderr)
            note(f"{warning} this replaces the entry {name!r}, which {visible(replaced)}; --name gives another name")
        _confirm_write(file, options)
        backup = _replace_file(file, before, after)
    if options.json:
        document = {"file": str(file), "name": name, "entry": entry, "changed": changed, "replaced": replaced}
        print_json({**document, "backup": None if backup is None else str(backup)})
    elif not changed:
        note(f"{file} has this already; nothing was changed")
    else:
        saved = f"; the file as it was is {backup}" if backup is not None else ""
        note(f"{name} is {'in' if entry is not None else 'no longer in'} {file}{saved}")
        note(f"{mcp_client.title} reads it when it starts: {mcp_client.restart}")
    return 0


def _without_server(mcp_client: McpClient, file: Path, before: str, name: str) -> str:
    """The text without the entry; also without the then empty member if the file had none before `install`."""
    after = mcp_client.without_entry(before, name)
    bare = mcp_client.without_empty_servers(after)
    if bare is None:
        return after
    olds = [_read_text(backup) for backup in _backup_paths(file) if backup.exists()]
    if not olds:  # the file itself was made by `install`
        return bare if mcp_client.is_empty(bare) else after
    return next((old for old in olds if mcp_client.is_equivalent(old, bare)), after)


def _read_text(file: Path) -> str:
    try:
        if not file.exists():
            return ""
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise CommandError(f"{file} is larger than {_MAX_FILE_BYTES // 1024 // 1024} MiB; is it the right file?")
        return file.read_bytes().decode()
    except UnicodeDecodeError:
        raise CommandError(f"{file} is left as it is: it is not UTF-8") from None
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}; name another with --file") from None


def _print_change(file: Path, before: str, after: str) -> None:
    """Print the changed lines with three lines of context."""
    old, new = before.splitlines(), after.splitlines()
    shortest = min(len(old), len(new))
    head = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    rest = shortest - head
    tail = next((index for index in range(rest) if old[-1 - index] != new[-1 - index]), rest)
    note(f"{file}:")
    for line in old[max(0, head - _CONTEXT_LINES) : head]:
        note(f"  {visible(line, keep=chr(9))}")
    for mark, colour, lines in (("-", RED, old), ("+", GREEN, new)):
        for line in lines[head : len(lines) - tail]:
            note(styled(f"{mark} {visible(line, keep=chr(9))}", colour, sys.stderr))
    for line in new[len(new) - tail : len(new) - tail + _CONTEXT_LINES]:
        note(f"  {visible(line, keep=chr(9))}")


def _confirm_write(file: Path, options: InstallOptions) -> None:
    if options.yes:
        return
    if not is_interactive():
        raise CommandError(f"{file} was not changed: nobody can be asked here; say yes with --yes")
    if not ask_yes_no(f"Write {file}?"):
        raise CommandError("nothing was changed")


def _replace_file(file: Path, before: str, after: str) -> Path | None:
    """Replace the file atomically and return the backup of the old one, if there was a file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        backup = _back_up(file, before) if file.exists() else None
        with open_atomic(file) as new:
            new.stream.write(after.encode())
            new.stream.flush()
            os.fsync(new.stream.fileno())
            if _read_text(file) != before:
                raise CommandError(f"{file} was changed meanwhile by another program; run this again")
            new.commit()
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}") from None
    return backup


def _back_up(file: Path, text: str) -> Path:
    """Write the old text to a backup beside the file and return its path; never overwrites an earlier backup."""
    backup = next(each for each in _backup_paths(file) if not each.exists() or each.read_bytes() == text.encode())
    if not backup.exists():
        with open(backup, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy:
            copy.write(text.encode())
        backup.chmod(file.stat().st_mode & 0o777)  # no wider than the file: it may hold keys of other servers
    return backup


def _backup_paths(file: Path) -> Iterator[Path]:
    """The paths of existing backups in the order they were made, then the first free one."""
    for number in itertools.count(1):
        backup = file.with_name(f"{file.name}{BACKUP_SUFFIX}{'' if number == 1 else f'.{number}'}")
        yield backup
        if not backup.exists():
            return
