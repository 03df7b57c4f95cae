"""Decides how to serve and hands over; each way is imported only when it is chosen."""

import importlib
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from toolhall.cli.beside import started_beside
from toolhall.cli.definitions import refuse_unserved
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.logs import apply_log_settings, start_logging
from toolhall.cli.screen import note
from toolhall.cli.serving.plan import Plan, ServeOptions
from toolhall.cli.serving.privacy import protect_process
from toolhall.cli.settings import completed_with, data_folder, read_named, refuse_exposure
from toolhall.config import Config, stated_in
from toolhall.model.errors import LifespanFailed

_ANY = ("0.0.0.0", "::")  # noqa: S104 - only to tell what it means
_JOIN = "toolhall.cli.serving.join"

Way: TypeAlias = Literal["http", "stdio", "reload", "workers"]


def start(targets: tuple[str, ...], options: ServeOptions) -> int:
    """Check what was asked for, then serve until told to stop."""
    protect_process()
    try:
        return _start(targets, options)
    except (CommandFailed, LifespanFailed) as failed:
        if options.stdio and options.dialect in (None, "mcp") and options.join is None:
            tell_stdio_client(str(failed))
        raise


def tell_stdio_client(reason: str) -> None:
    """Answer the first request of the MCP client on standard input with the reason why the server cannot start."""
    tell: Callable[[str], None] = importlib.import_module("toolhall.cli.serving.stdio").tell_client
    tell(" ".join(reason.split()))


def _start(targets: tuple[str, ...], options: ServeOptions) -> int:
    _check(options)
    for target in targets:
        refuse_unserved(target)
    start_logging("warning")
    if options.join is not None:
        join: Callable[[tuple[str, ...], ServeOptions], int] = importlib.import_module(_JOIN).run
        return join(targets, options)
    given = {
        "host": options.host,
        "port": options.port,
        "data": str(options.data) if options.data else None,
        "profile": options.profile,
    }
    named = read_named(options.config, **given)
    config = completed_with(named, targets)
    apply_log_settings(config.log_level, config.log_format, access=config.access_log)
    refuse_exposure(config.profile, config.host)
    data_folder(config)
    stated = {*stated_in(options.config), *(name for name, value in given.items() if value is not None)}
    with started_beside(targets, _answering(config)) as completed:
        plan = Plan(
            targets=targets,
            config=completed,
            host=options.host,
            port=options.port,
            data=str(options.data) if options.data else None,
            file=str(options.config) if options.config else None,
            stated=tuple(sorted(stated)),
            unnamed=named.data is None,
            workers=options.workers,
            json=options.json,
            stdio=options.stdio,
            dialect=options.dialect or "mcp",
        )
        # uvicorn takes as long to import as the hall, and only one of the ways needs it in this process.
        run: Callable[[Plan], int] = importlib.import_module(f"toolhall.cli.serving.{_way(options)}").run
        return run(plan)


def _answering(config: Config) -> Config:
    """It answers for the address it listens on, as 127.0.0.2; which names an address has nobody can tell."""
    if config.host in _ANY and config.public_url is None:
        refused = (
            "" if config.allowed_hosts else ", and requests by a name that allowed_hosts does not list are refused"
        )
        note(f"public_url is not set, so links for people lead to this machine{refused}; set it to what others use")
    host = f"[{config.host}]" if ":" in config.host else config.host
    if host in config.allowed_hosts:
        return config
    return msgspec.structs.replace(config, allowed_hosts=(*config.allowed_hosts, host))


def _way(options: ServeOptions) -> Way:
    if options.stdio:
        return "stdio"
    if options.reload:
        return "reload"
    return "workers" if options.workers > 1 else "http"


def _check(options: ServeOptions) -> None:
    if options.stdio and (options.host, options.port, options.reload, options.workers) != (None, None, False, 1):
        raise WrongUsage("--stdio listens on no port: leave out --host, --port, --reload and --workers")
    if options.dialect and not options.stdio:
        raise WrongUsage("--dialect goes with --stdio; over HTTP every dialect is served at once")
    if options.reload and options.workers != 1:
        raise WrongUsage("--reload works with one process: leave out --workers")
    if options.workers < 1:
        raise WrongUsage("--workers must be 1 or more")
    if options.join is None and (options.name, options.key_file, options.advertise) != (None, None, None):
        raise WrongUsage("--name, --key-file and --advertise go with --join: name the hall with --join URL")
    if options.join is None and options.socket:
        raise WrongUsage("--socket goes with --join: name the hall with --join URL")
    if options.port is not None and not 0 <= options.port <= 65_535:
        raise WrongUsage("--port must be between 0 and 65535")
