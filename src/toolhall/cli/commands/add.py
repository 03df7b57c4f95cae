"""`toolhall add`: an MCP server by URL, by command, or those of a client's file, stored as upstreams of a hall.

Credentials that stand in a file or on the command line go into the vault, and a reference stays in their place.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from cyclopts import Parameter

from toolhall.cli.clients.management import ManagementClient, ManagementRefused, open_upstream_management
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.hall_options import ConfirmOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import BOLD, YELLOW, is_interactive, note, pluralize, print_answer_json, styled, visible
from toolhall.cli.prompts import confirm, print_prompt, prompt_secret
from toolhall.cli.target_names import is_url
from toolhall.cli.upstream_files import CLIENT_SUFFIXES, client_variables, read_upstream_file
from toolhall.dialects.client_files.credentials import move_credentials
from toolhall.dialects.client_files.server import ClientServer, ServerDraft, name_for_command, name_for_url, safe_name
from toolhall.dialects.client_files.variables import secret_name
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret
from toolhall.model.upstream import Share, UpstreamSettings, shown_settings, upstream_name_problem

Word = Annotated[str, Parameter(allow_leading_hyphen=True)]


@dataclass(frozen=True)
class AddOptions(ConfirmOptions):
    """Options of `toolhall add`.

    Parameters
    ----------
    name
        What to call it: the name of its toolkit. [default: made from the host, the package or the file]
    only
        Of a file: only these servers. Otherwise: only these tools, separated by commas, such as search_*.
    header
        A header of every request: NAME=VALUE. Values may hold ${secret:NAME}, or are kept in the vault.
    env
        A variable of the command: NAME=VALUE. Values may hold ${secret:NAME}, or are kept in the vault.
    level
        The security level of all its tools, 0 to 10. [default: 4]
    share
        Who shares a session with it.
    dry_run
        Show what would be added, and add nothing.
    """

    name: str | None = None
    only: str | None = None
    header: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    level: int | None = None
    share: Share | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Addition:
    """One upstream to add: its settings without credentials, and the secrets that go into the vault."""

    server: ClientServer
    name: str
    settings: UpstreamSettings
    secrets: dict[str, Secret]

    def document(self) -> JsonObject:
        """What is printed of it: no value of a secret."""
        return {
            "name": self.name,
            "target": self.settings.target,
            "settings": shown_settings(self.settings),
            "secrets": [*self.secrets],
            "waitsFor": self.waits_for,
            "losses": [msgspec.to_builtins(each) for each in self.server.losses],
            "warnings": [*self.server.notes],
        }

    @property
    def waits_for(self) -> list[str]:
        """The secrets that nobody gave."""
        return [secret_name(each) for each in self.server.missing_secrets if secret_name(each) not in self.secrets]


MAX_LEVEL = 10
_DEFAULTS = AddOptions()


def add(*words: Word, options: Annotated[AddOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Add an MCP server whose tools the hall then offers, or the servers of an MCP client's file.

    Parameters
    ----------
    words
        The URL of a server, a file of an MCP client, or -- and the command that starts a server.
    """
    start_logging(None)
    if options.level is not None and not 0 <= options.level <= MAX_LEVEL:
        raise UsageError(f"--level is a number from 0 to {MAX_LEVEL}")
    if not words:
        raise UsageError("add what? A URL, a file of an MCP client, or a command: toolhall add --name Files -- npx ...")
    servers, kind = _servers_of(words, options)
    refused = [{"name": each.key, "reason": _why_not(each)} for each in servers if _why_not(each)]
    additions = [_addition(each, options) for each in servers if not _why_not(each)]
    if not options.json:
        for line in (line for each in additions for line in _lines(each)):
            note(line)
    if not servers:
        raise CommandError(visible(f"{words[0]} lists no servers; write one into it, or add one by its URL"))
    if not options.dry_run:
        if kind is not None and additions:
            confirm(f"Add {pluralize(len(additions), 'upstream')} as shown?", yes=options.yes)
        not_stored = _store(additions, options)
        refused += not_stored
        names = {each["name"] for each in not_stored}
        additions = [each for each in additions if each.name not in names]
    if options.json:
        member = "wouldAdd" if options.dry_run else "added"
        print_answer_json({"kind": kind, member: [each.document() for each in additions], "refused": refused})
    elif not options.dry_run:
        for each in additions:
            print(visible(f"{each.name} is added{_next_step(each, options)}"))
    if refused:
        reasons = "; ".join(f"{each['name']}: {each['reason']}" for each in refused)
        raise CommandError(visible(f"{pluralize(len(refused), 'upstream')} not added: {reasons}"))


def _servers_of(words: tuple[str, ...], options: AddOptions) -> tuple[tuple[ClientServer, ...], str | None]:
    """The servers that are to be added, and what kind of file they are from."""
    first = words[0]
    if is_url(first):
        if len(words) > 1:
            raise UsageError("a URL stands alone; for a header write --header NAME=VALUE")
        return (_stated_server({"url": first}, name_for_url(_host_of(first)), options),), None
    if len(words) == 1 and first.lower().endswith((*CLIENT_SUFFIXES, ".yaml", ".yml")):
        return _servers_of_file(Path(first).expanduser(), options)
    name = name_for_command(first, words[1:])
    return (_stated_server({"command": first, "args": [*words[1:]]}, name, options),), None


def _stated_server(target: JsonObject, name: str, options: AddOptions) -> ClientServer:
    """A server of the command line. Its values are as they are typed: the shell has filled its variables."""
    parts: JsonObject = {**target, "headers": _pairs(options.header, "--header"), "env": _pairs(options.env, "--env")}
    if options.only is not None:
        parts["only"] = [each for each in options.only.split(",") if each]
    draft = ServerDraft(name, (), {})
    draft.parts = {part: value for part, value in parts.items() if value}
    found = draft.finish(safe_name(name), None, {})
    if found.problem is not None:
        raise UsageError(visible(found.problem))
    return found


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if any(not (name and equals) for name, equals, _ in pairs):
        raise UsageError(f"{option} is NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "server"
    except ValueError:
        return "server"


def _servers_of_file(file: Path, options: AddOptions) -> tuple[tuple[ClientServer, ...], str]:
    if not file.is_file():
        raise UsageError(f"there is no file {file}; for a command write -- before it")
    if options.header or options.env:
        raise UsageError("--header and --env go with a URL or a command; write them into the file")
    found = read_upstream_file(file)
    if found is None:
        raise CommandError(
            f"{file} lists no servers; a file of an MCP client has mcpServers, servers, context_servers or"
            " [mcp_servers.NAME] in it"
        )
    asked = _asked_values(found.servers, options)
    if asked:
        found = read_upstream_file(file, client_variables(file) | asked) or found
    chosen = found.servers
    if options.only is not None:
        wanted = [each for each in options.only.split(",") if each]
        chosen = tuple(each for each in found.servers if each.key in wanted or each.name in wanted)
        unknown = [each for each in wanted if not any(each in (server.key, server.name) for server in found.servers)]
        if unknown:
            known = ", ".join(server.key for server in found.servers) or "none"
            raise UsageError(visible(f"{file} has no server {', '.join(unknown)}; it has {known}"))
    if options.name is not None and len(chosen) != 1:
        raise UsageError(f"--name names one server, and {file} has {len(chosen)}; choose one with --only")
    return chosen, found.kind


def _asked_values(servers: tuple[ClientServer, ...], options: AddOptions) -> dict[str, str]:
    """What a person types for the inputs that the file wants to be asked for; each is asked once."""
    if options.dry_run or not is_interactive():
        return {}
    inputs = {each.id: each for server in servers for each in server.inputs if _is_missing(server, each.id)}
    asked: dict[str, str] = {}
    for each in inputs.values():
        note(visible(f"{each.id}: {each.description or 'a value that the file asks for'}"))
        if each.password:
            asked[f"input:{each.id}"] = prompt_secret().reveal()
        else:
            print_prompt(f"{each.id}: ")
            asked[f"input:{each.id}"] = sys.stdin.readline().strip()
    return asked


def _is_missing(server: ClientServer, input_id: str) -> bool:
    return f"input:{input_id}" in (*server.missing, *server.missing_secrets)


def _why_not(server: ClientServer) -> str | None:
    """Why a server of a file cannot be added."""
    if server.problem is not None:
        return server.problem
    if server.missing:
        return f"the variable {', '.join(server.missing)} is not set; set it and try again"
    return None


def _addition(server: ClientServer, options: AddOptions) -> Addition:
    name = options.name or server.name
    if problem := upstream_name_problem(name):
        raise UsageError(f"--name: {problem}")
    settings = server.settings
    if settings is None:
        raise CommandError(f"{server.key} has no settings")
    changes = {part: value for part, value in (("level", options.level), ("share", options.share)) if value is not None}
    try:
        settings = msgspec.convert({**msgspec.to_builtins(settings), **changes}, UpstreamSettings)
    except msgspec.ValidationError as wrong:
        raise UsageError(str(wrong)) from None
    if options.running and settings.command is not None:
        where = f"[upstreams.{name}]"
        raise UsageError(
            f"{visible(server.key)} is a command, and none is taken over the network: write it under {where} in the"
            " hall's toolhall.toml, which is read again within 2 seconds, or stop the hall and leave out --url"
        )
    settings, secrets = move_credentials(name, settings)
    return Addition(server, name, settings, secrets)


def _store(additions: list[Addition], options: AddOptions) -> list[JsonObject]:
    """Keep the secrets and store the upstreams; return those that the hall refused. One does not stop the others."""
    refused: list[JsonObject] = []
    if not additions:
        return refused
    with open_upstream_management(options) as (client, store):
        stored = {each["name"] for each in client.request("GET", "secrets")["secrets"] if each["user"] is None}
        for each in additions:
            kept: list[str] = []
            try:
                _check_unused(stored.intersection(each.secrets))
                for name, secret in each.secrets.items():
                    client.request("PUT", "secrets", name, body={"value": secret.reveal()})
                    kept.append(name)
                store(each.name, each.settings)
            except (ManagementRefused, CommandError) as failed:
                _forget(client, kept)
                refused.append({"name": each.name, "reason": failed.message})
    return refused


def _check_unused(names: set[str]) -> None:
    """Raise CommandError rather than replace a secret that something else may use."""
    if names:
        name = min(names)
        raise CommandError(
            f"there is a secret {name} already; write ${{secret:{name}}} in place of the value to use it, or remove it"
            f" with 'toolhall secret remove {name}'"
        )


def _forget(client: ManagementClient, names: list[str]) -> None:
    for name in names:
        client.request("DELETE", "secrets", name)


def _lines(addition: Addition) -> Iterator[str]:
    """What is said of an upstream before it is added."""
    server = addition.server
    yield f"{styled(visible(addition.name), BOLD, sys.stderr)}: {visible(addition.settings.target)}"
    for part, value in shown_settings(addition.settings).items():
        if part not in ("url", "command", "args"):
            yield visible(f"  {part}: {_compact(value)}")
    for name in addition.secrets:
        yield visible(f"  kept in the vault as the secret {name}; ${{secret:{name}}} stands in its place")
    for name in addition.waits_for:
        yield visible(f"  waits for the secret {name}: 'toolhall secret set {name}'")
    for loss in server.losses:
        yield visible(f"  not read: {loss.path}: {loss.reason}")
    for warning in server.notes:
        yield f"  {styled('warning:', YELLOW, sys.stderr)} {visible(warning)}"


def _compact(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _next_step(addition: Addition, options: AddOptions) -> str:
    if addition.waits_for:
        return f"; it waits for 'toolhall secret set {addition.waits_for[0]}'"
    if options.running:
        return f"; 'toolhall upstream check {addition.name} --url {options.url}' tries it"
    return f"; 'toolhall upstream check {addition.name}' tries it, 'toolhall serve' offers its tools"
