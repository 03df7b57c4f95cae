"""`toolhall install`: writes a server into the configuration file of an MCP client."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from toolhall.cli.clients.json_text import UneditableFile
from toolhall.cli.clients.known import CLIENTS, CannotSay, KnownClient, Name, Process, Remote
from toolhall.cli.clients.launch import default_name, stdio_server
from toolhall.cli.documents.replacing import new_file
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.screen import GREEN, RED, note, person_present, print_json, styled, visible
from toolhall.cli.serving.privacy import secrets_in
from toolhall.cli.sources.wire import mcp_path
from toolhall.cli.terminal import forget_typed, prompt, says_yes

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 32 * 1024 * 1024
_CONTEXT = 3
BACKUP_SUFFIX = ".toolhall.bak"


@dataclass(frozen=True)
class InstallOptions:
    """What `toolhall install` takes besides the client and the server.

    Parameters
    ----------
    name
        What the client calls the server. [default: the target's name]
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
    yes: Annotated[bool, Parameter(alias="-y")] = False
    project: bool = False
    file: Path | None = None
    data: Path | None = None
    config: Path | None = None
    env: tuple[str, ...] = ()
    key_env: str | None = None
    json: bool = False


_DEFAULTS = InstallOptions()


def install(client: Name, /, *targets: str, options: Annotated[InstallOptions, Parameter(name="*")] = _DEFAULTS) -> int:
    """Write a server into the configuration file of an MCP client; the change is shown first.

    Parameters
    ----------
    client
        The program to write it for.
    targets
        file.py, file.py:object, package.module, a folder or definitions.json, which the client then starts; or the URL
        of a hall that runs. The example toolkit when left out.
    """
    known = CLIENTS[client]
    name = _name(options, targets)
    try:
        file = (options.file or known.file(project=options.project)).absolute()
        if options.remove:
            return _change(known, file, name, None, options)
        entry = known.entry(name, _server(targets, options))
    except CannotSay as cannot:
        raise CommandFailed(str(cannot)) from None
    if not options.print:
        return _change(known, file, name, entry, options)
    if options.json:
        print_json({"file": str(file), "name": name, "entry": entry})
    else:
        print(known.alone(name, entry), end="")
    return 0


def _name(options: InstallOptions, targets: tuple[str, ...]) -> str:
    remote = bool(targets) and _is_url(targets[0])
    name = options.name or default_name(() if remote else targets)
    if not _NAME.fullmatch(name):
        raise WrongUsage("--name may hold letters, digits, - and _, at most 64, and begins with a letter or a digit")
    return name


def _is_url(word: str) -> bool:
    return word.startswith(("http://", "https://"))


def _server(targets: tuple[str, ...], options: InstallOptions) -> Process | Remote:
    urls = [each for each in targets if _is_url(each)]
    if not urls:
        if options.key_env is not None:
            raise WrongUsage("--key-env goes with a URL; a server that the client starts needs no key")
        return _process(targets, options)
    if len(targets) > 1:
        raise WrongUsage("give one URL, or targets")
    if options.data or options.config or options.env:
        raise WrongUsage(
            "--data, --config and --env are for a server that the client starts: leave them out with a URL"
        )
    if options.key_env is not None and not _VARIABLE.fullmatch(options.key_env):
        raise WrongUsage("--key-env is the name of a variable, such as TOOLHALL_KEY; never write the key itself")
    return Remote(_mcp_url(urls[0]), options.key_env)


def _process(targets: tuple[str, ...], options: InstallOptions) -> Process:
    server = stdio_server(targets, options.data, options.config, os.environ)
    left_out = secrets_in(os.environ)
    if left_out:
        note(f"{', '.join(sorted(left_out))} is set here and not written to the file, because it is a secret")
    return Process(server.command, server.args, {**server.env, **dict(map(_variable, options.env))})


def _variable(stated: str) -> tuple[str, str]:
    name, equals, value = stated.partition("=")
    if not _VARIABLE.fullmatch(name):
        raise WrongUsage(f"--env {stated!r} is not NAME=VALUE")
    if not equals and name not in os.environ:
        raise WrongUsage(f"--env {name}: there is no such variable here; write {name}=VALUE")
    return name, value if equals else os.environ[name]


def _mcp_url(stated: str) -> str:
    wrong = WrongUsage(f"{stated!r} is not a URL of a hall; write it like http://127.0.0.1:8000")
    try:
        parts = urlsplit(stated)
        port = parts.port
    except ValueError:
        raise wrong from None
    if not parts.hostname or port == 0:
        raise wrong
    if parts.username or parts.password:
        raise WrongUsage("the URL must hold no user name or password: it would be readable in the file")
    return parts._replace(path=mcp_path(parts.path), fragment="").geturl()


def _change(known: KnownClient, file: Path, name: str, entry: dict[str, object] | None, options: InstallOptions) -> int:
    before = _read(file)
    try:
        if entry is None and not known.has(before, name):
            raise CommandFailed(f"{file} has no server {name!r}; name the one to remove with --name")
        after = known.remove(before, name) if entry is None else known.set(before, name, entry)
    except UneditableFile as bad:
        raise CommandFailed(
            f"{file} is left as it is, because it cannot be edited safely: {bad};"
            " mend it, or take the entry from --print and paste it in"
        ) from None
    changed, backup = after != before, None
    if changed:
        _show(file, before, after)
        _agree(file, options)
        backup = _write(file, before, after)
    if options.json:
        said = {"file": str(file), "name": name, "entry": entry, "changed": changed}
        print_json({**said, "backup": None if backup is None else str(backup)})
    elif not changed:
        note(f"{file} has this already; nothing was changed")
    else:
        kept = f"; the file as it was is {backup}" if backup is not None else ""
        note(f"{name} is {'in' if entry is not None else 'no longer in'} {file}{kept}")
        note(f"{known.title} reads it when it starts: {known.restart}")
    return 0


def _read(file: Path) -> str:
    try:
        if not file.exists():
            return ""
        if file.stat().st_size > _MOST_BYTES:
            raise CommandFailed(f"{file} is larger than {_MOST_BYTES // 1024 // 1024} MiB; is it the right file?")
        return file.read_bytes().decode()
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is left as it is: it is not UTF-8") from None
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}; name another with --file") from None


def _show(file: Path, before: str, after: str) -> None:
    """The lines that change, with some around them."""
    old, new = before.splitlines(), after.splitlines()
    shortest = min(len(old), len(new))
    head = next((place for place in range(shortest) if old[place] != new[place]), shortest)
    most = shortest - head
    tail = next((place for place in range(most) if old[-1 - place] != new[-1 - place]), most)
    note(f"{file}:")
    for line in old[max(0, head - _CONTEXT) : head]:
        note(f"  {visible(line, keep=chr(9))}")
    for mark, colour, lines in (("-", RED, old), ("+", GREEN, new)):
        for line in lines[head : len(lines) - tail]:
            note(styled(f"{mark} {visible(line, keep=chr(9))}", colour, sys.stderr))
    for line in new[len(new) - tail : len(new) - tail + _CONTEXT]:
        note(f"  {visible(line, keep=chr(9))}")


def _agree(file: Path, options: InstallOptions) -> None:
    if options.yes:
        return
    if not person_present():
        raise CommandFailed(f"{file} was not changed: nobody can be asked here; say yes with --yes")
    forget_typed()
    prompt(f"Write {file}? [y/N] ")
    if not says_yes(sys.stdin.readline()):
        raise CommandFailed("nothing was changed")


def _write(file: Path, before: str, after: str) -> Path | None:
    """Put the new text in place in one step; returns where the old one is kept."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        backup = file.with_name(f"{file.name}{BACKUP_SUFFIX}") if file.exists() else None
        if backup is not None:
            backup.unlink(missing_ok=True)
            with new_file(backup) as copy:
                copy.stream.write(before.encode())
                copy.keep()
            backup.chmod(file.stat().st_mode & 0o777)  # it may hold keys of other servers
        with new_file(file) as new:
            new.stream.write(after.encode())
            new.stream.flush()
            os.fsync(new.stream.fileno())
            if _read(file) != before:
                raise CommandFailed(f"{file} was changed meanwhile by another program; run this again")
            new.keep()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from None
    return backup
