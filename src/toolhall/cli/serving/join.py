"""`toolhall serve --join`: runs tools for a hall that is elsewhere."""

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
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.progress import counted
from toolhall.cli.screen import BOLD, CYAN, DIM, note, strays_aside, styled, visible
from toolhall.cli.serving.joined import Joined, Terms
from toolhall.cli.serving.listen import listen, url_of
from toolhall.cli.serving.loops import new_loop
from toolhall.cli.serving.output import redacted_output
from toolhall.cli.serving.plan import ServeOptions
from toolhall.cli.serving.privacy import forget_secrets
from toolhall.cli.settings import read_settings
from toolhall.cli.sources.credential import read_key
from toolhall.cli.targets import load_targets
from toolhall.cli.waiting import waiting
from toolhall.config import Config
from toolhall.dialects.hub.leasing import QUARANTINED, Held
from toolhall.egress.addresses import is_loopback
from toolhall.model.json import encode
from toolhall.model.names import name_problem
from toolhall.registrar.papers import Paper
from toolhall.runners.staff import means_of
from toolhall.schema.bounds import BadSchema
from toolhall.toolserver.desk import Desk

_MOST_KEY_BYTES = 16 * 1024
_HERE = "127.0.0.1"


def run(targets: tuple[str, ...], options: ServeOptions) -> int:
    """Load, join, run what the hall calls until told to stop, leave."""
    _check(targets, options)
    hall = _hall(options.join or "")
    advertised = None if options.advertise is None else _advertised(options.advertise)
    config = read_settings(options.config)
    key = _key(options)
    forget_secrets()  # before any tool is imported
    definitions = _loaded(targets)
    terms = Terms(hall, key, _name(options.name, definitions), 2 * config.max_body_bytes + 65_536)
    desk = _desk(definitions, config)
    with _output() as out, redacted_output(), strays_aside(), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(desk, terms, options, advertised, out))
    return 0


def _output() -> TextIO:
    """The standard output as it is now: later, what tools print goes elsewhere."""
    return os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")


async def _serve(desk: Desk, terms: Terms, options: ServeOptions, advertised: str | None, out: TextIO) -> None:
    if options.socket:
        await Joined(desk, terms, lambda held: _announce(out, terms, None, held, json=options.json)).over_socket()
        return
    # Others may reach it, as the hall must: whoever calls needs the token, in every profile.
    with listen(options.host or _HERE, options.port or 0, "server") as listening:
        url = advertised or url_of(listening)
        joined = Joined(desk, terms, lambda held: _announce(out, terms, url, held, json=options.json))
        await joined.over_http(listening, url)


def _check(targets: Sequence[str], options: ServeOptions) -> None:
    meant_for_a_hall = {
        "--stdio": options.stdio,
        "--workers": options.workers != 1,
        "--profile": options.profile,
        "--data": options.data,
    }
    for option, given in meant_for_a_hall.items():
        if given:
            raise WrongUsage(f"{option} is for a hall, and with --join this is a tool server: leave it out")
    if options.reload:
        raise WrongUsage("--reload does not go with --join: the hall holds each version of a tool to what it was")
    if not targets:
        raise WrongUsage("--join needs the tools to run: toolhall serve my_tools.py --join URL")
    listening = (options.host, options.port, options.advertise)
    if options.socket and listening != (None, None, None):
        raise WrongUsage("--socket listens on no port: leave out --host, --port and --advertise")
    if options.host is not None and options.advertise is None and not is_loopback(options.host):
        raise WrongUsage(
            f"a hall on another machine calls no plain HTTP, which is all that --host {options.host} has: put a proxy"
            " with https before it and say it with --advertise https://NAME, or join with --socket"
        )


def _hall(stated: str) -> str:
    """The hall's address, up to where its paths begin."""
    url = _url(stated, "--join").removesuffix("/hub")
    if urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or ""):
        raise WrongUsage(f"--join {url} would be sent secrets that others can read on the way; use https")
    return url


def _advertised(stated: str) -> str:
    """Where the hall calls: in plain HTTP only on its own machine."""
    url = _url(stated, "--advertise")
    if urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or ""):
        raise WrongUsage(
            f"--advertise {url} would be sent secrets that others can read on the way, and no hall calls there:"
            " put a proxy with https before this server, or join with --socket"
        )
    return url


def _url(stated: str, option: str) -> str:
    try:
        parts = urlsplit(stated)
        port = parts.port
    except ValueError as error:
        raise WrongUsage(f"{option} {stated!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise WrongUsage(f"{option} {stated!r} is not a URL of a server; write it like http://127.0.0.1:8000")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise WrongUsage(f"{option} must hold no user name, password or query: it would end up in logs")
    return stated.rstrip("/")


def _key(options: ServeOptions) -> str:
    """From a file or from the environment: other programs could read the command line."""
    if options.key_file is None:
        return read_key(None)
    try:
        with Path(options.key_file).open(encoding="utf-8") as file:
            return read_key(file.read(_MOST_KEY_BYTES).strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise CommandFailed(f"--key-file {options.key_file} cannot be read: {reason}") from None
    except WrongUsage:
        raise WrongUsage(
            f"--key-file {options.key_file} holds no key: it is one word, as 'toolhall key create' prints it"
        ) from None


def _loaded(targets: Sequence[str]) -> list[Definition]:
    with strays_aside(), waiting("Loading tools"):
        found = load_targets(targets)
        for each in found:
            if isinstance(each, Toolhall):
                each.close()
                raise WrongUsage("a target has a Toolhall of its own, which serves by itself; name its tools instead")
            if isinstance(each, Paper):
                raise WrongUsage("definitions alone cannot be run: send them to the hall with 'toolhall tool add'")
        try:
            return [definition for each in found for definition in definitions_of(each)]
        except (BadDeclaration, BadSchema) as error:
            raise CommandFailed(str(error)) from None
        except TypeError as error:
            raise CommandFailed(f"{error}; serve an instance instead: file.py:NAME") from None


def _desk(definitions: list[Definition], config: Config) -> Desk:
    try:
        return Desk(definitions, means_of(config))
    except (BadDeclaration, BadSchema) as error:
        raise CommandFailed(str(error)) from None


def _name(stated: str | None, definitions: list[Definition]) -> str:
    name = definitions[0].tool.id.toolkit.lstrip("_-") or "tools" if stated is None else stated
    if problem := name_problem(name):
        raise WrongUsage(f"--name: {problem}")
    return name


def _announce(out: TextIO, terms: Terms, url: str | None, held: Held, *, json: bool) -> None:
    """On the output itself, from which what tools print is kept away."""
    waiting_ones = [name for name, state in held.tools.items() if state == QUARANTINED]
    if json:
        out.write(encode({"url": url, "pid": os.getpid(), "hall": terms.hall}).decode() + "\n")
    else:
        at = "over a socket" if url is None else f"at {styled(url, CYAN, sys.stderr)}"
        out.write(f"{styled('Toolhall runs', BOLD, sys.stderr)} {terms.name} {at} for {terms.hall}\n")
        out.write(styled("Ctrl+C leaves the hall and stops.", DIM, sys.stderr) + "\n")
    out.flush()
    if waiting_ones:
        first = visible(waiting_ones[0])
        note(
            f"{counted(len(waiting_ones), 'tool')} quarantined, such as {first}: "
            f"'toolhall tool activate {first} --url {terms.hall}' serves it"
        )
