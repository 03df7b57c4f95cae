"""The MCP clients that `toolhall install` knows: their files on each system, and the shape of an entry in them."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from toolhall.cli.clients import json_text, line_text
from toolhall.cli.clients.json_text import UneditableFile
from toolhall.model.json import JsonObject

Name: TypeAlias = Literal[
    "claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "codex", "gemini-cli", "goose"
]
Format: TypeAlias = Literal["json", "toml", "yaml"]
System: TypeAlias = Literal["linux", "darwin", "win32"]

# Members of an entry that say how its server is reached; all others in an entry are the person's own, and stay.
_WAYS = frozenset(
    {"type", "command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers", "http_headers"}
    | {"bearer_token_env_var", "source"}
)


class Process(msgspec.Struct, frozen=True):
    """A server that the client starts."""

    command: str
    args: Sequence[str]
    env: Mapping[str, str] = {}

    def entry(self) -> JsonObject:
        """What most clients' files say of it."""
        said: JsonObject = {"command": self.command, "args": list(self.args)}
        return {**said, "env": dict(self.env)} if self.env else said


class Remote(msgspec.Struct, frozen=True):
    """A server that runs; `key_env` is the variable that holds the key for it."""

    url: str
    key_env: str | None = None


class CannotSay(Exception):
    """The client's file has no way to say this; the message says what to do instead."""


class KnownClient(NamedTuple):
    """One client."""

    title: str
    place: Callable[[System, Path, Mapping[str, str]], Path]  # of the file that counts for the person
    below: str  # the member that holds the servers
    process: Callable[[str, Process], JsonObject]
    remote: Callable[[str, Remote], JsonObject]
    in_project: str | None = None  # the file that counts for one project
    format: Format = "json"
    restart: str = "restart it, or reload its MCP servers"

    def file(self, *, project: bool) -> Path:
        """Where the entry goes on this machine."""
        if not project:
            return self.place(_system(), Path.home(), os.environ)
        if self.in_project is None:
            raise CannotSay(f"{self.title} has no file for one project; leave out --project")
        return Path.cwd() / self.in_project

    def entry(self, name: str, server: Process | Remote) -> JsonObject:
        """What is written for a server; raises CannotSay."""
        return self.process(name, server) if isinstance(server, Process) else self.remote(name, server)

    def set(self, text: str, name: str, entry: JsonObject) -> str:
        """The text of the file with the entry; what a person added to one of this name stays. Raises UneditableFile."""
        path = (self.below, name)
        match self.format:
            case "json":
                return json_text.edited(text, path, _merged(json_text.read_json(text), path, entry))
            case "toml":
                return line_text.edited_toml(text, path, _merged(line_text.read_toml(text), path, entry))
            case "yaml":
                return line_text.edited_yaml(text, path, entry)

    def remove(self, text: str, name: str) -> str:
        """The text of the file without the entry; raises UneditableFile."""
        path = (self.below, name)
        match self.format:
            case "json":
                return json_text.removed(text, path)
            case "toml":
                return line_text.removed_toml(text, path)
            case "yaml":
                return line_text.removed_yaml(text, path)

    def entry_in(self, text: str, name: str) -> JsonObject | None:
        """The entry of this name in the text of the file; of YAML only what can be read. Raises UneditableFile."""
        if self.format == "yaml":
            return line_text.entry_of_yaml(text, (self.below, name))
        document = json_text.read_json(text) if self.format == "json" else line_text.read_toml(text)
        servers = _servers(document, self.below)
        if name not in servers:
            return None
        return servers[name] if isinstance(servers[name], dict) else {}

    def without_empty(self, text: str) -> str | None:
        """The text without the member that holds the servers; None unless that is there and empty."""
        match self.format:
            case "json" if json_text.read_json(text).get(self.below) == {}:
                return json_text.removed(text, (self.below,))
            case "yaml":
                return line_text.without_empty_yaml(text, self.below)
            case _:
                return None  # a table of TOML needs no header above it

    def same(self, one: str, other: str) -> bool:
        """Whether two texts of the file differ in blanks at most that mean nothing."""
        if self.format == "json":
            same_letters = "".join(one.split()) == "".join(other.split())
            return same_letters and json_text.read_json(one) == json_text.read_json(other)
        return one.rstrip() == other.rstrip()

    def is_empty(self, text: str) -> bool:
        """Whether the file says nothing at all."""
        return not (json_text.read_json(text) if self.format == "json" else text.strip())

    def alone(self, name: str, entry: JsonObject) -> str:
        """A file with nothing but the entry."""
        match self.format:
            case "json":
                return json_text.edited("{}\n", (self.below, name), entry)
            case "toml":
                return line_text.written_toml((self.below, name), entry)
            case "yaml":
                return line_text.written_yaml((self.below, name), entry)


def _servers(document: JsonObject, below: str) -> JsonObject:
    found = document.get(below, {})
    if not isinstance(found, dict):
        raise UneditableFile(f"its member {below!r} is not an object")
    return found


def _merged(document: JsonObject, path: tuple[str, str], entry: JsonObject) -> JsonObject:
    """The entry with what a person added to the old one: members that do not say how it is reached, and variables."""
    old = _servers(document, path[0]).get(path[1])
    if not isinstance(old, dict):
        return entry
    kept = {key: value for key, value in old.items() if key not in _WAYS}
    variables = old.get("env")
    if "command" in entry and isinstance(variables, dict) and variables:
        entry = {**entry, "env": {**variables, **entry.get("env", {})}}
    return {**entry, **kept}


def described(entry: JsonObject) -> str:
    """What a client does with an entry, to be read behind "which"."""
    for member in ("url", "serverUrl", "httpUrl", "uri"):
        if member in entry:
            return f"connected to {entry[member]}"
    args = entry.get("args")
    words = [str(each) for each in args] if isinstance(args, list) else []
    if "serve" in words and "--stdio" in words[words.index("serve") :]:
        targets = words[words.index("serve") + 1 : words.index("--stdio", words.index("serve"))]
        return f"started {' '.join(targets) or 'the example toolkit'}"
    command = entry.get("command") or entry.get("cmd")
    return f"started {' '.join([str(command), *words])}" if command else "was of another kind"


def _system() -> System:
    return "win32" if sys.platform == "win32" else "darwin" if sys.platform == "darwin" else "linux"


def _config(home: Path, environment: Mapping[str, str]) -> Path:
    """freedesktop.org, base directories: a relative path there is to be ignored."""
    stated = Path(environment.get("XDG_CONFIG_HOME", ""))
    return stated if stated.is_absolute() else home / ".config"


def _roaming(home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get("APPDATA") or home / "AppData" / "Roaming")


def _application(name: str, file: str) -> Callable[[System, Path, Mapping[str, str]], Path]:
    """A desktop application's own folder."""

    def place(system: System, home: Path, environment: Mapping[str, str]) -> Path:
        match system:
            case "darwin":
                return home / "Library" / "Application Support" / name / file
            case "win32":
                return _roaming(home, environment) / name / file
            case "linux":
                return _config(home, environment) / name / file

    return place


def _at_home(*parts: str) -> Callable[[System, Path, Mapping[str, str]], Path]:
    return lambda _system, home, _environment: home.joinpath(*parts)


def _zed(system: System, home: Path, environment: Mapping[str, str]) -> Path:
    if system == "win32":
        return _roaming(home, environment) / "Zed" / "settings.json"
    return (home / ".config" if system == "darwin" else _config(home, environment)) / "zed" / "settings.json"


def _codex(_system: System, home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get("CODEX_HOME") or home / ".codex") / "config.toml"


def _goose(system: System, home: Path, environment: Mapping[str, str]) -> Path:
    if system == "win32":
        return _roaming(home, environment) / "Block" / "goose" / "config" / "config.yaml"
    return (home / ".config" if system == "darwin" else _config(home, environment)) / "goose" / "config.yaml"


def _started(_name: str, process: Process) -> JsonObject:
    return process.entry()


def _started_typed(name: str, process: Process) -> JsonObject:
    return {"type": "stdio", **_started(name, process)}


def _started_by_goose(name: str, process: Process) -> JsonObject:
    return {
        "enabled": True,
        "type": "stdio",
        "name": name,
        "description": f"Tools of {name}, served by Toolhall",
        "cmd": process.command,
        "args": list(process.args),
        "envs": dict(process.env),
        "timeout": 300,
    }


def _reached(member: str, variable: str, **more: str) -> Callable[[str, Remote], JsonObject]:
    """An entry with the address in this member; `variable` is how the client's file names an environment variable."""

    def entry(_name: str, remote: Remote) -> JsonObject:
        said: JsonObject = {**more, member: remote.url}
        if remote.key_env is not None:
            if not variable:
                raise CannotSay(
                    "this client's file cannot name an environment variable, and a key does not belong into a file:"
                    " leave out --key-env, and add the header Authorization by hand if you must"
                )
            said["headers"] = {"Authorization": f"Bearer {variable.format(remote.key_env)}"}
        return said

    return entry


def _reached_by_codex(_name: str, remote: Remote) -> JsonObject:
    said: JsonObject = {"url": remote.url}
    return said if remote.key_env is None else {**said, "bearer_token_env_var": remote.key_env}


def _reached_by_goose(name: str, remote: Remote) -> JsonObject:
    about: JsonObject = {"enabled": True, "type": "streamable_http", "name": name, "description": "Tools of Toolhall"}
    return {**about, **_reached("uri", "")(name, remote), "timeout": 300}


def _not_reached(_name: str, remote: Remote) -> JsonObject:
    raise CannotSay(
        f"Claude Desktop's file only takes programs to start: add {remote.url} in its settings under Connectors (which"
        " needs https), or install the TARGET itself"
    )


CLIENTS: dict[Name, KnownClient] = {
    "claude-desktop": KnownClient(
        "Claude Desktop",
        _application("Claude", "claude_desktop_config.json"),
        "mcpServers",
        _started,
        _not_reached,
        restart="quit Claude Desktop and start it again",
    ),
    "claude-code": KnownClient(
        "Claude Code",
        _at_home(".claude.json"),
        "mcpServers",
        _started_typed,
        _reached("url", "${{{}}}", type="http"),
        ".mcp.json",
        restart="start a new session; /mcp lists it",
    ),
    "cursor": KnownClient(
        "Cursor",
        _at_home(".cursor", "mcp.json"),
        "mcpServers",
        _started,
        _reached("url", "${{env:{}}}"),
        ".cursor/mcp.json",
    ),
    "vscode": KnownClient(
        "VS Code",
        _application("Code/User", "mcp.json"),
        "servers",
        _started_typed,
        _reached("url", "${{env:{}}}", type="http"),
        ".vscode/mcp.json",
        restart="start it with 'MCP: List Servers'",
    ),
    "windsurf": KnownClient(
        "Windsurf",
        _at_home(".codeium", "windsurf", "mcp_config.json"),
        "mcpServers",
        _started,
        _reached("serverUrl", "${{env:{}}}"),
    ),
    "zed": KnownClient("Zed", _zed, "context_servers", _started, _reached("url", ""), ".zed/settings.json"),
    "codex": KnownClient("Codex", _codex, "mcp_servers", _started, _reached_by_codex, ".codex/config.toml", "toml"),
    "gemini-cli": KnownClient(
        "Gemini CLI",
        _at_home(".gemini", "settings.json"),
        "mcpServers",
        _started,
        _reached("httpUrl", "${{{}}}"),
        ".gemini/settings.json",
        restart="start it again; /mcp lists it",
    ),
    "goose": KnownClient("goose", _goose, "extensions", _started_by_goose, _reached_by_goose, format="yaml"),
}
