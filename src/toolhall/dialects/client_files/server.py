"""ClientFile and ClientServer, what is read from a client's file; ServerDraft collects the parts of one server.

Messages name the server, the member and the variable, never a value: values may be secrets.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.dialects.base import Loss
from toolhall.dialects.client_files.credentials import Credential, credentials_in, unpinned_package
from toolhall.dialects.client_files.variables import VariableFiller
from toolhall.model.json import Json, JsonObject
from toolhall.model.text import clean_text
from toolhall.model.upstream import MAX_NAME_LENGTH, UpstreamSettings, upstream_name_problem

ClientKind: TypeAlias = Literal[
    "mcpServers", "VS Code", "VS Code settings", "Zed", "Codex", "opencode", "registry server.json"
]
Path: TypeAlias = tuple[str | int, ...]
EnvFileReader: TypeAlias = Callable[[str], str | None]  # the text of a file of variables, None if it cannot be read
MAX_SERVERS = 200
_MAX_SHOWN = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_COMMON_LABELS = frozenset({"api", "app", "dev", "mcp", "server", "www"})


class ClientInput(msgspec.Struct, frozen=True):
    """A value that the file wants a person to be asked for."""

    id: str
    description: str = ""
    password: bool = False


class ClientServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a client's file, as an upstream."""

    key: str  # in the file
    name: str  # of the upstream and its toolkit
    line: int | None = None
    settings: UpstreamSettings | None = None
    problem: str | None = None  # why there are no settings, with what to do
    losses: tuple[Loss, ...] = ()
    variables: tuple[str, ...] = ()  # that it uses
    missing: tuple[str, ...] = ()  # variables that are not set, and no secret stands in for them: it waits
    missing_secrets: tuple[str, ...] = ()  # variables that are not set; its settings name a secret in their place
    inputs: tuple[ClientInput, ...] = ()  # that it uses
    credentials: tuple[Credential, ...] = ()
    notes: tuple[str, ...] = ()  # warnings

    @property
    def off(self) -> bool:
        """Whether the file says that it is not to be used."""
        return self.settings is not None and self.settings.off

    @property
    def is_waiting(self) -> bool:
        """Whether a variable that it needs is not set."""
        return bool(self.missing or self.missing_secrets)


class ClientFile(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of a client's file, and what else in it was not read."""

    kind: ClientKind
    servers: tuple[ClientServer, ...]
    losses: tuple[Loss, ...] = ()


class DraftProblem(ValueError):
    """A server cannot be read; the message says which member is wrong and what to write."""


class ServerDraft:
    """The settings of one server while they are read, with what was noticed on the way."""

    def __init__(
        self,
        key: str,
        path: Path,
        variables: Mapping[str, str],
        *,
        opencode: bool = False,
        env_files: EnvFileReader | None = None,
    ) -> None:
        self.key = key
        self._path = path
        self._variables = variables
        self._filler = VariableFiller(variables, opencode=opencode)
        self.lookup = self._filler.lookup
        self.read_env_file = env_files
        self.parts: dict[str, object] = {}
        self.losses: list[Loss] = []
        self.notes: list[str] = []

    def lose(self, *path: str | int, reason: str) -> None:
        """Record a member that has no meaning for an upstream."""
        shown = "/".join(clean_text(str(part))[:_MAX_SHOWN] for part in (*self._path, *path))
        self.losses.append(Loss(f"/{shown}", reason))

    def optional(self, name: str) -> str | None:
        """The value of a variable that need not be set."""
        return self.lookup(name) if name in self._variables else None

    def text(self, value: Json, member: str, *, may_hold_secret: bool = False) -> str:
        """A text with its variables filled; numbers and true or false are written as they are in JSON."""
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float):
            value = str(value)
        if not isinstance(value, str):
            raise DraftProblem(f"{member} is {_kind(value)}; write a text")
        return self._filler.fill(value, may_hold_secret=may_hold_secret)

    def texts(self, value: Json, member: str) -> tuple[str, ...]:
        """A list of texts; one text alone is a list of one."""
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            raise DraftProblem(f"{member} is {_kind(value)}; write a list of texts")
        return tuple(self.text(each, f"{member}[{number}]") for number, each in enumerate(value))

    def secret_texts(self, value: Json, member: str) -> dict[str, str]:
        """A table of texts that may hold secrets; members that are null are left out."""
        if not isinstance(value, dict):
            raise DraftProblem(f"{member} is {_kind(value)}; write a table of names and texts")
        return {
            str(name): self.text(each, f"{member}.{_shown(name)}", may_hold_secret=True)
            for name, each in value.items()
            if each is not None
        }

    def add_members(self, part: Literal["env", "headers"], members: Mapping[str, str]) -> None:
        """Add variables or headers; later ones win."""
        known = self.parts.get(part)
        self.parts[part] = {**(known if isinstance(known, dict) else {}), **members}

    def finish(self, name: str, line: int | None, inputs: Mapping[str, ClientInput]) -> ClientServer:
        """The server with its settings, or with the reason why there are none."""
        settings, problem = None, None
        try:
            settings = msgspec.convert(self.parts, UpstreamSettings)
        except msgspec.ValidationError as wrong:
            problem = str(wrong)
        return ClientServer(
            key=self.key,
            name=name,
            line=line,
            settings=settings,
            problem=problem,
            losses=tuple(self.losses),
            variables=tuple(self._filler.used),
            missing=tuple(self._filler.missing),
            missing_secrets=tuple(self._filler.missing_secrets),
            inputs=tuple(inputs[each] for each in self._filler.used if each in inputs),
            credentials=() if settings is None else credentials_in(settings),
            notes=(*self.notes, *self._filled_notes(), *(() if settings is None else _notes(settings))),
        )

    def refuse(self, name: str, line: int | None, problem: str) -> ClientServer:
        """The server with the reason why it cannot be read."""
        return ClientServer(key=self.key, name=name, line=line, problem=problem, losses=tuple(self.losses))

    def _filled_notes(self) -> Iterator[str]:
        for name in self._filler.bare:
            yield f"a value that is nothing but ${name} is the variable {name}; write ${{{name}}} to be clear"
        for name in self._filler.unset_bare:
            yield f"${name} is used as it is written, because no such variable is set; write ${{{name}}} to wait for it"


def unique_names(keys: Iterable[str]) -> list[str]:
    """A safe and distinct name of an upstream for each key."""
    names: list[str] = []
    taken: set[str] = set()
    for key in keys:
        stem = safe_name(key)
        name, number = stem, 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem[: MAX_NAME_LENGTH - 4]}-{number}"
        taken.add(name.casefold())
        names.append(name)
    return names


def safe_name(text: str) -> str:
    """A valid name of an upstream: a key of a file, or the last part of a package's name."""
    name = _UNSAFE.sub("-", text.rpartition("/")[2] or text).strip("-_")[:MAX_NAME_LENGTH].strip("-_")
    if not name:
        return "server"
    return name if upstream_name_problem(name) is None else f"{name[: MAX_NAME_LENGTH - 7]}-server"


def name_for_url(host: str) -> str:
    """A name for the server at this host: its most telling label."""
    labels = [each for each in host.casefold().split(".") if each]
    if len(labels) == 1 or all(each.isdigit() for each in labels) or ":" in host:
        return safe_name(host.replace(".", "-").replace(":", "-"))
    telling = [each for each in labels[:-1] if each not in _COMMON_LABELS] or labels[:-1]
    return safe_name(telling[-1])


def name_for_command(command: str, args: tuple[str, ...]) -> str:
    """A name for the server that this command starts: its package, script or program."""
    words = [command, *(each for each in args if not each.startswith("-"))]
    runner = re.split(r"[\\/]", command)[-1].casefold()
    is_runner = runner in (
        "bunx",
        "deno",
        "dnx",
        "docker",
        "node",
        "npx",
        "pipx",
        "podman",
        "python",
        "python3",
        "uv",
        "uvx",
    )
    chosen = next((each for each in words[1:] if each not in ("run", "exec", "x")), command) if is_runner else command
    last = re.split(r"[\\/]", chosen.rstrip("\\/"))[-1]
    return safe_name(re.split(r"(?<=.)@|==|:", re.sub(r"\.(?:js|mjs|py|ts|exe|cmd)$", "", last))[0])


def _notes(settings: UpstreamSettings) -> Iterator[str]:
    if settings.command is not None and (package := unpinned_package(settings.command, settings.args)) is not None:
        yield (
            f"{_shown(package)} has no exact version: what runs tomorrow is not what was looked at today; write the"
            " version behind it"
        )
    for found in credentials_in(settings):
        if found.part == "args":
            yield (
                f"{_shown(found.name)} in args looks like a credential, and every process of this machine can read"
                " arguments; if the server reads a variable, write it into env"
            )
        elif found.part == "url":
            yield "the query of url looks like a credential; if the server takes a header, write it into headers"


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "a table"
        case list():
            return "a list"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case _:
            return "a text"


def _shown(name: object) -> str:
    return clean_text(str(name))[:_MAX_SHOWN]


def plain_object(value: Json) -> JsonObject:
    """The object itself, an empty one for anything else."""
    return value if isinstance(value, dict) else {}
