"""`toolhall serve`: decides how to serve and hands over; each way is imported only when it is chosen."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from toolhall.cli.failure import WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.serving.plan import Plan
from toolhall.cli.settings import data_folder, read_settings, refuse_exposure

Way: TypeAlias = Literal["http", "stdio", "reload", "workers", "child"]


@Parameter(name="*")
@dataclass(frozen=True)
class ServeOptions:
    """What `toolhall serve` takes besides its targets."""

    host: Annotated[str | None, Parameter(help="Where to listen: this machine only. [default: 127.0.0.1]")] = None
    port: Annotated[int | None, Parameter(help="0 picks a free one. [default: 8000]")] = None
    data: Annotated[Path | None, Parameter(help="Folder of records and keys. [default: ~/.local/share/toolhall]")] = (
        None
    )
    config: Annotated[Path | None, Parameter(help="Settings file. [default: toolhall.toml, if there is one]")] = None
    profile: Annotated[
        Literal["local", "server"] | None, Parameter(help="Who may call. [default: local]", show_choices=True)
    ] = None
    stdio: Annotated[bool, Parameter(help="Serve MCP on standard input and output.", negative="")] = False
    reload: Annotated[bool, Parameter(help="Start again when a file changes.", negative="")] = False
    workers: Annotated[int, Parameter(help="Processes that share the port.")] = 1
    json: Annotated[bool, Parameter(help="Print one JSON line with the url and the pid.", negative="")] = False
    child: Annotated[str | None, Parameter(show=False)] = None


_DEFAULTS = ServeOptions()


def serve(*targets: str, options: ServeOptions = _DEFAULTS) -> int:
    """Serve tools over HTTP, or over standard input and output.

    Parameters
    ----------
    targets
        file.py, file.py:object, package.module or a folder; the example toolkit when left out.
    """
    _check(options)
    start_logging("warning")
    data = str(options.data) if options.data else None
    config = read_settings(options.config, host=options.host, port=options.port, data=data, profile=options.profile)
    refuse_exposure(config.profile, config.host)
    data_folder(config)
    plan = Plan(
        targets=targets,
        config=config,
        host=options.host,
        port=options.port,
        repeated=_repeated(options),
        workers=options.workers,
        json=options.json,
        child=options.child,
    )
    # uvicorn alone takes as long to import as everything else together, and only two of the ways need it.
    run: Callable[[Plan], int] = importlib.import_module(f"toolhall.cli.serving.{_way(options)}").run
    return run(plan)


def _way(options: ServeOptions) -> Way:
    if options.child:
        return "child"
    if options.stdio:
        return "stdio"
    if options.reload:
        return "reload"
    return "workers" if options.workers > 1 else "http"


def _check(options: ServeOptions) -> None:
    if options.stdio and (options.host, options.port, options.reload, options.workers) != (None, None, False, 1):
        raise WrongUsage("--stdio listens on no port: leave out --host, --port, --reload and --workers")
    if options.reload and options.workers != 1:
        raise WrongUsage("--reload works with one process: leave out --workers")
    if options.workers < 1:
        raise WrongUsage("--workers must be 1 or more")
    if options.port is not None and not 0 <= options.port <= 65_535:
        raise WrongUsage("--port must be between 0 and 65535")


def _repeated(options: ServeOptions) -> tuple[str, ...]:
    given = {"--data": options.data, "--config": options.config, "--profile": options.profile}
    return tuple(f"{name}={value}" for name, value in given.items() if value is not None)
