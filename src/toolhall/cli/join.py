"""`toolhall serve --join`: runs tools as the tool server of a hall elsewhere."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from toolhall.app import Toolhall
from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Definition, definitions_of
from toolhall.cli.clients.http import read_key
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.listen import base_url, listen
from toolhall.cli.options import ServeOptions
from toolhall.cli.output import BOLD, CYAN, DIM, note, pluralize, stdout_to_stderr, styled, visible
from toolhall.cli.progress import show_spinner
from toolhall.cli.settings import read_config_with_data
from toolhall.cli.startup import restore_collector
from toolhall.cli.targets import load_targets
from toolhall.cli.upstream_files import UpstreamFile
from toolhall.config import Config
from toolhall.dialects.hub.lease_messages import QUARANTINED, CredentialRefused, HubRefusal, JoinResult
from toolhall.egress.addresses import is_loopback
from toolhall.execution.executor import limits_from_config
from toolhall.model.json import encode
from toolhall.model.names import name_problem, safe_name
from toolhall.registration.records import DefinitionDocument
from toolhall.registry.snapshot import Entry
from toolhall.schema.cost import BadSchema
from toolhall.server.process import clear_secret_env, new_event_loop
from toolhall.server.redacted_output import redacted_output
from toolhall.server.tool_server import JoinOptions, ToolServerProcess
from toolhall.toolserver.handler import CallHandler

_MAX_KEY_BYTES = 16 * 1024
_LOOPBACK = "127.0.0.1"
_NO_KEY = "it needs a key; set TOOLHALL_KEY or name a file with --key-file ('toolhall key create' makes keys)"


def run_tool_server(targets: tuple[str, ...], options: ServeOptions) -> int:
    """Load the tools, join the hall, run its calls until a signal, then leave it."""
    _check_options(targets, options)
    hall = _hall_url(options.join or "")
    advertised = None if options.advertise is None else _advertised_url(options.advertise)
    config = read_config_with_data(options.config)
    key = _read_key(options)
    clear_secret_env()  # before any tool is imported
    definitions, files = _load_targets(targets)
    name = _server_name(options.name, definitions, files)
    join_options = JoinOptions(hall, key, name, 2 * config.max_body_bytes + 65_536)
    handler = None if files else _new_handler(definitions, config)
    restore_collector()

    async def serve(out: TextIO) -> None:
        if handler is not None:
            await _serve(handler, join_options, options, advertised, out)
            return
        from toolhall.cli.bridge import bridged  # lazy: a whole hall, only for upstreams

        async with bridged(files, config) as entries:
            await _serve(_new_handler(definitions, config, entries), join_options, options, advertised, out)

    with (
        _duplicate_stdout() as out,
        redacted_output(),
        stdout_to_stderr(),
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        try:
            runner.run(serve(out))
        except HubRefusal as refused:
            no_key = isinstance(refused, CredentialRefused) and not key
            reason = _NO_KEY if no_key else visible(refused.message)
            raise CommandError(f"the hall at {hall} does not take this tool server: {reason}") from None
    return 0


def _duplicate_stdout() -> TextIO:
    """A copy of stdout: afterwards stdout itself is redirected to stderr."""
    return os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")


async def _serve(
    handler: CallHandler, join_options: JoinOptions, options: ServeOptions, advertised: str | None, out: TextIO
) -> None:
    if options.socket:
        await ToolServerProcess(
            handler, join_options, lambda result: _print_joined(out, join_options, None, result, json=options.json)
        ).serve_websocket()
        return
    # Profile `server`: the hall must reach this address, and every caller needs the token.
    with listen(options.host or _LOOPBACK, options.port or 0, "server") as listening:
        url = advertised or base_url(listening)
        process = ToolServerProcess(
            handler, join_options, lambda result: _print_joined(out, join_options, url, result, json=options.json)
        )
        await process.serve_http(listening, url)


def _check_options(targets: Sequence[str], options: ServeOptions) -> None:
    options_of_a_hall = {
        "--stdio": options.stdio,
        "--workers": options.workers != 1,
        "--profile": options.profile,
        "--data": options.data,
    }
    for option, given in options_of_a_hall.items():
        if given:
            raise UsageError(f"{option} is for a hall, and with --join this is a tool server: leave it out")
    if options.reload:
        raise UsageError("--reload does not go with --join: the hall holds each version of a tool to what it was")
    if not targets:
        raise UsageError("--join needs the tools to run: toolhall serve my_tools.py --join URL")
    listening = (options.host, options.port, options.advertise)
    if options.socket and listening != (None, None, None):
        raise UsageError("--socket listens on no port: leave out --host, --port and --advertise")
    if options.host is not None and options.advertise is None and not is_loopback(options.host):
        raise UsageError(
            f"a hall on another machine calls no plain HTTP, which is all that --host {options.host} has: put a proxy"
            " with https before it and say it with --advertise https://NAME, or join with --socket"
        )


def _hall_url(stated: str) -> str:
    """The base URL of the hall; plain http only on this machine."""
    url = _checked_url(stated, "--join").removesuffix("/hub")
    if urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or ""):
        raise UsageError(f"--join {url} would be sent secrets that others can read on the way; use https")
    return url


def _advertised_url(stated: str) -> str:
    """The URL at which the hall calls this server; plain http only on this machine."""
    url = _checked_url(stated, "--advertise")
    if urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or ""):
        raise UsageError(
            f"--advertise {url} would be sent secrets that others can read on the way, and no hall calls there:"
            " put a proxy with https before this server, or join with --socket"
        )
    return url


def _checked_url(stated: str, option: str) -> str:
    try:
        parts = urlsplit(stated)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{option} {stated!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UsageError(f"{option} {stated!r} is not a URL of a server; write it like http://127.0.0.1:8000")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(f"{option} must hold no user name, password or query: it would end up in logs")
    return stated.rstrip("/")


def _read_key(options: ServeOptions) -> str:
    """The key from --key-file or the environment; a command line could be read by other programs."""
    if options.key_file is None:
        return read_key(None)
    try:
        with Path(options.key_file).open(encoding="utf-8") as file:
            return read_key(file.read(_MAX_KEY_BYTES).strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise CommandError(f"--key-file {options.key_file} cannot be read: {reason}") from None
    except UsageError:
        raise UsageError(
            f"--key-file {options.key_file} holds no key: it is one word, as 'toolhall key create' prints it"
        ) from None


def _load_targets(targets: Sequence[str]) -> tuple[list[Definition], list[UpstreamFile]]:
    with stdout_to_stderr(), show_spinner("Loading tools"):
        loaded = load_targets(targets)
        for each in loaded:
            if isinstance(each, Toolhall):
                each.close()
                raise UsageError("a target has a Toolhall of its own, which serves by itself; name its tools instead")
            if isinstance(each, DefinitionDocument):
                raise UsageError("definitions alone cannot be run: send them to the hall with 'toolhall tool add'")
        files = [each for each in loaded if isinstance(each, UpstreamFile)]
        others = [each for each in loaded if not isinstance(each, UpstreamFile | Toolhall | DefinitionDocument)]
        try:
            return [definition for each in others for definition in definitions_of(each)], files
        except (BadDeclaration, BadSchema) as error:
            raise CommandError(str(error)) from None
        except TypeError as error:
            raise CommandError(f"{error}; serve an instance instead: file.py:NAME") from None


def _new_handler(definitions: list[Definition], config: Config, entries: Sequence[Entry] = ()) -> CallHandler:
    try:
        return CallHandler(definitions, limits_from_config(config), entries=entries)
    except (BadDeclaration, BadSchema) as error:
        raise CommandError(str(error)) from None


def _server_name(stated: str | None, definitions: list[Definition], files: Sequence[UpstreamFile]) -> str:
    first = definitions[0].tool.id.toolkit if definitions else Path(files[0].path).stem
    name = safe_name(first).lstrip("_-") or "tools" if stated is None else stated
    if problem := name_problem(name):
        raise UsageError(f"--name: {problem}")
    return name


def _print_joined(out: TextIO, join_options: JoinOptions, url: str | None, result: JoinResult, *, json: bool) -> None:
    """Print to the copy of stdout that the server has joined, and to stderr which tools are quarantined."""
    quarantined = [name for name, state in result.tools.items() if state == QUARANTINED]
    if json:
        out.write(encode({"url": url, "pid": os.getpid(), "hall": join_options.hall}).decode() + "\n")
    else:
        at = "over a socket" if url is None else f"at {styled(url, CYAN, sys.stderr)}"
        out.write(f"{styled('Toolhall runs', BOLD, sys.stderr)} {join_options.name} {at} for {join_options.hall}\n")
        out.write(styled("Ctrl+C leaves the hall and stops.", DIM, sys.stderr) + "\n")
    out.flush()
    if quarantined:
        first = visible(quarantined[0])
        note(
            f"{pluralize(len(quarantined), 'tool')} quarantined, such as {first}: "
            f"'toolhall tool activate {first} --url {join_options.hall}' serves it"
        )
