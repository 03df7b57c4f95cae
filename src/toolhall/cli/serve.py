"""`toolhall serve`: the checks of its options, and the choice between HTTP, stdio, reload, workers and joining."""

import socket
import sys
from typing import Literal, TypeAlias

import msgspec

from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.listen import base_url, listen_as_configured, print_serve_banner
from toolhall.cli.logs import apply_log_settings, start_logging
from toolhall.cli.options import ServeOptions
from toolhall.cli.output import note
from toolhall.cli.settings import (
    check_not_exposed,
    ensure_data_folder,
    read_config_with_origins,
    serves_examples,
    with_default_data,
    with_example_services,
)
from toolhall.cli.target_names import reject_unsupported_target
from toolhall.config import Config, SettingOrigin, stated_in
from toolhall.model.errors import LifespanFailed
from toolhall.server.process import ServeConfig, protect_process

_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - only compared
_WORKER_MAIN = f"{__package__}.serve_http"  # what a worker process runs; to import it here would import the server
ServeMode: TypeAlias = Literal["http", "stdio", "reload", "workers"]


def run_serve(targets: tuple[str, ...], options: ServeOptions) -> int:
    """Check the options and serve until a signal; a start-up error over stdio is also sent to the MCP client."""
    protect_process()
    try:
        return _run_serve(targets, options)
    except (CommandError, LifespanFailed) as failed:
        if options.stdio and options.dialect in (None, "mcp") and options.join is None:
            reply_startup_error(str(failed))
        raise


def reply_startup_error(reason: str) -> None:
    """Answer the first request of the MCP client on standard input with the reason why the server cannot start."""
    from toolhall.cli.serve_stdio import reply_startup_error_to_client  # lazy: only where a client waits

    reply_startup_error_to_client(" ".join(reason.split()))


def _run_serve(targets: tuple[str, ...], options: ServeOptions) -> int:
    _check_options(options)
    for target in targets:
        reject_unsupported_target(target)
    start_logging("warning")
    if options.join is not None:
        from toolhall.cli.join import run_tool_server  # lazy: the tool server's side

        return run_tool_server(targets, options)
    given = {
        "host": options.host,
        "port": options.port,
        "data": str(options.data) if options.data else None,
        "profile": options.profile,
    }
    stated_config, origins = read_config_with_origins(options.config, **given)
    if stated_config.data is None:
        origins["data"] = SettingOrigin("default")  # the folder of the project
    config = with_default_data(stated_config, targets)
    apply_log_settings(config.log_level, config.log.format, access=config.access_log)
    check_not_exposed(config.profile, config.host)
    ensure_data_folder(config)
    stated = {*stated_in(options.config), *(name for name, value in given.items() if value is not None)}
    examples = serves_examples(targets, config)
    with with_example_services(_allow_own_host(config), served=examples) as full_config:
        serve_config = ServeConfig(
            targets=targets,
            config=full_config,
            host=options.host,
            port=options.port,
            data=str(options.data) if options.data else None,
            file=str(options.config) if options.config else None,
            examples=examples,
            stated=tuple(sorted(stated)),
            origins=origins,
            unnamed=stated_config.data is None,
            workers=options.workers,
            json=options.json,
            stdio=options.stdio,
            dialect=options.dialect or "mcp",
        )
        return _serve_as(_serve_mode(options), serve_config)


def _serve_as(mode: ServeMode, config: ServeConfig) -> int:
    """Serve in one of four modes, each imported lazily."""
    match mode:
        case "stdio":
            from toolhall.cli.serve_stdio import serve_stdio  # lazy: the hall without its HTTP server

            return serve_stdio(config)
        case "reload":
            from toolhall.server.reload import run_reloading  # lazy: neither the hall nor its HTTP server

            _check_sockets_can_be_shared()
            with listen_as_configured(config.config) as listening:
                return run_reloading(_WORKER_MAIN, config, listening, _TerminalOutput(config))
        case "workers":
            from toolhall.server.supervisor import run_workers  # lazy: neither the hall nor its HTTP server

            _check_sockets_can_be_shared()
            with listen_as_configured(config.config) as listening:
                return run_workers(_WORKER_MAIN, config, listening, _TerminalOutput(config))
        case "http":
            from toolhall.cli.serve_http import serve_http  # lazy: the hall and its HTTP server

            return serve_http(config)


class _TerminalOutput:
    """Prints the messages of a supervisor: the banner and notes."""

    def __init__(self, config: ServeConfig) -> None:
        self._config = config

    def ready(self, listening: socket.socket) -> None:
        print_serve_banner(base_url(listening), self._config.config, self._config)

    def note(self, text: str) -> None:
        note(text)


def _check_sockets_can_be_shared() -> None:
    if sys.platform == "win32":
        raise CommandError("--reload and --workers need a system that can share sockets; serve without them")


def _allow_own_host(config: Config) -> Config:
    """Add the host that it listens on, such as 127.0.0.2, to allowed_hosts; warn if links need a public_url."""
    if config.host in _ANY_ADDRESS and config.public_url is None:
        consequence = (
            "" if config.allowed_hosts else ", and requests by a name that allowed_hosts does not list are refused"
        )
        note(f"public_url is not set, so links for people lead to this machine{consequence}; set it to what others use")
    host = f"[{config.host}]" if ":" in config.host else config.host
    if host in config.allowed_hosts:
        return config
    return msgspec.structs.replace(config, allowed_hosts=(*config.allowed_hosts, host))


def _serve_mode(options: ServeOptions) -> ServeMode:
    if options.stdio:
        return "stdio"
    if options.reload:
        return "reload"
    return "workers" if options.workers > 1 else "http"


def _check_options(options: ServeOptions) -> None:
    if options.stdio and (options.host, options.port, options.reload, options.workers) != (None, None, False, 1):
        raise UsageError("--stdio listens on no port: leave out --host, --port, --reload and --workers")
    if options.dialect and not options.stdio:
        raise UsageError("--dialect goes with --stdio; over HTTP every dialect is served at once")
    if options.reload and options.workers != 1:
        raise UsageError("--reload works with one process: leave out --workers")
    if options.workers < 1:
        raise UsageError("--workers must be 1 or more")
    if options.join is None and (options.name, options.key_file, options.advertise) != (None, None, None):
        raise UsageError("--name, --key-file and --advertise go with --join: name the hall with --join URL")
    if options.join is None and options.socket:
        raise UsageError("--socket goes with --join: name the hall with --join URL")
    if options.port is not None and not 0 <= options.port <= 65_535:
        raise UsageError("--port must be between 0 and 65535")
