"""MCP_CLIENTS, the clients that `toolhall install` supports: their file on each system and the shape of an entry."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from toolhall.cli.install import json_edit, toml_yaml_edit
from toolhall.cli.install.json_edit import UneditableFile
from toolhall.model.json import JsonObject

ClientName: TypeAlias = Literal[
    "claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "codex", "gemini-cli", "goose"
]
FileFormat: TypeAlias = Literal["json", "toml", "yaml"]
System: TypeAlias = Literal["linux", "darwin", "win32"]
# Members of an entry that say how its server is reached; all others in an entry are the person's own, and stay.
_CONNECTION_MEMBERS = frozenset(
    {"type", "command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers", "http_headers"}
    | {"bearer_token_env_var", "source"}
)


class StdioServer(msgspec.Struct, frozen=True):
    """A server that the client starts."""

    command: str
    args: Sequence[str]
    env: Mapping[str, str] = {}

    def entry(self) -> JsonObject:
        """What most clients' files say of it."""
        said: JsonObject = {"command": self.command, "args": list(self.args)}
        return {**said, "env": dict(self.env)} if self.env else said


class RemoteServer(msgspec.Struct, frozen=True):
    """A server that runs; `key_env` is the variable that holds the key for it."""

    url: str
    key_env: str | None = None


class NotSupportedByClient(Exception):
    """The client's file has no way to say this; the message says what to do instead."""


class McpClient(NamedTuple):
    """One client."""

    title: str
    user_file: Callable[[System, Path, Mapping[str, str]], Path]  # of the file that counts for the person
    servers_key: str  # the member that holds the servers
    stdio_entry: Callable[[str, StdioServer], JsonObject]
    remote_entry: Callable[[str, RemoteServer], JsonObject]
    project_file: str | None = None  # the file that counts for one project
    format: FileFormat = "json"
    restart: str = "restart it, or reload its MCP servers"

    def config_file(self, *, project: bool) -> Path:
        """Where the entry goes on this machine."""
        if not project:
            return self.user_file(_system(), Path.home(), os.environ)
        if self.project_file is None:
            raise NotSupportedByClient(f"{self.title} has no file for one project; leave out --project")
        return Path.cwd() / self.project_file

    def entry(self, name: str, server: StdioServer | RemoteServer) -> JsonObject:
        """What is written for a server; raises CannotSay."""
        return self.stdio_entry(name, server) if isinstance(server, StdioServer) else self.remote_entry(name, server)

    def with_entry(self, text: str, name: str, entry: JsonObject) -> str:
        """The text of the file with the entry; what a person added to one of this name stays. Raises UneditableFile."""
        path = (self.servers_key, name)
        match self.format:
            case "json":
                return json_edit.set_member(text, path, _merge_entry(json_edit.read_json(text), path, entry))
            case "toml":
                return toml_yaml_edit.set_toml_table(
                    text, path, _merge_entry(toml_yaml_edit.read_toml(text), path, entry)
                )
            case "yaml":
                return toml_yaml_edit.set_yaml_entry(text, path, entry)

    def without_entry(self, text: str, name: str) -> str:
        """The text of the file without the entry; raises UneditableFile."""
        path = (self.servers_key, name)
        match self.format:
            case "json":
                return json_edit.remove_member(text, path)
            case "toml":
                return toml_yaml_edit.remove_toml_table(text, path)
            case "yaml":
                return toml_yaml_edit.remove_yaml_entry(text, path)

    def find_entry(self, text: str, name: str) -> JsonObject | None:
        """The entry of this name in the text of the file; of YAML only what can be read. Raises UneditableFile."""
        if self.format == "yaml":
            return toml_yaml_edit.read_yaml_entry(text, (self.servers_key, name))
        document = json_edit.read_json(text) if self.format == "json" else toml_yaml_edit.read_toml(text)
        servers = _servers_of(document, self.servers_key)
        if name not in servers:
            return None
        return servers[name] if isinstance(servers[name], dict) else {}

    def without_empty_servers(self, text: str) -> str | None:
        """The text without the member that holds the servers; None unless that is there and empty."""
        match self.format:
            case "json" if json_edit.read_json(text).get(self.servers_key) == {}:
                return json_edit.remove_member(text, (self.servers_key,))
            case "yaml":
                return toml_yaml_edit.remove_empty_yaml_key(text, self.servers_key)
            case _:
                return None  # a table of TOML needs no header above it

    def is_equivalent(self, one: str, other: str) -> bool:
        """Whether two texts of the file differ in blanks at most that mean nothing."""
        if self.format == "json":
            same_letters = "".join(one.split()) == "".join(other.split())
            return same_letters and json_edit.read_json(one) == json_edit.read_json(other)
        return one.rstrip() == other.rstrip()

    def is_empty(self, text: str) -> bool:
        """Whether the file says nothing at all."""
        return not (json_edit.read_json(text) if self.format == "json" else text.strip())

    def render_entry(self, name: str, entry: JsonObject) -> str:
        """A file with nothing but the entry."""
        match self.format:
            case "json":
                return json_edit.set_member("{}\n", (self.servers_key, name), entry)
            case "toml":
                return toml_yaml_edit.render_toml_table((self.servers_key, name), entry)
            case "yaml":
                return toml_yaml_edit.render_yaml_entry((self.servers_key, name), entry)


def _servers_of(document: JsonObject, below: str) -> JsonObject:
    found = document.get(below, {})
    if not isinstance(found, dict):
        raise UneditableFile(f"its member {below!r} is not an object")
    return found


def _merge_entry(document: JsonObject, path: tuple[str, str], entry: JsonObject) -> JsonObject:
    """The entry with what a person added to the old one: members that do not say how it is reached, and variables."""
    old = _servers_of(document, path[0]).get(path[1])
    if not isinstance(old, dict):
        return entry
    kept = {key: value for key, value in old.items() if key not in _CONNECTION_MEMBERS}
    variables = old.get("env")
    if "command" in entry and isinstance(variables, dict) and variables:
        entry = {**entry, "env": {**variables, **entry.get("env", {})}}
    return {**entry, **kept}


def describe_entry(entry: JsonObject) -> str:
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


def _config_home(home: Path, environment: Mapping[str, str]) -> Path:
    """freedesktop.org, base directories: a relative path there is to be ignored."""
    stated = Path(environment.get("XDG_CONFIG_HOME", ""))
    return stated if stated.is_absolute() else home / ".config"


def _windows_roaming(home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get("APPDATA") or home / "AppData" / "Roaming")


def _application_file(name: str, file: str) -> Callable[[System, Path, Mapping[str, str]], Path]:
    """A desktop application's own folder."""

    def place(system: System, home: Path, environment: Mapping[str, str]) -> Path:
        match system:
            case "darwin":
                return home / "Library" / "Application Support" / name / file
            case "win32":
                return _windows_roaming(home, environment) / name / file
            case "linux":
                return _config_home(home, environment) / name / file

    return place


def _home_file(*parts: str) -> Callable[[System, Path, Mapping[str, str]], Path]:
    return lambda _system, home, _environment: home.joinpath(*parts)


def _zed_file(system: System, home: Path, environment: Mapping[str, str]) -> Path:
    if system == "win32":
        return _windows_roaming(home, environment) / "Zed" / "settings.json"
    return (home / ".config" if system == "darwin" else _config_home(home, environment)) / "zed" / "settings.json"


def _codex_file(_system: System, home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get("CODEX_HOME") or home / ".codex") / "config.toml"


def _goose_file(system: System, home: Path, environment: Mapping[str, str]) -> Path:
    if system == "win32":
        return _windows_roaming(home, environment) / "Block" / "goose" / "config" / "config.yaml"
    return (home / ".config" if system == "darwin" else _config_home(home, environment)) / "goose" / "config.yaml"


def _stdio_entry(_name: str, process: StdioServer) -> JsonObject:
    return process.entry()


def _typed_stdio_entry(name: str, process: StdioServer) -> JsonObject:
    return {"type": "stdio", **_stdio_entry(name, process)}


def _goose_stdio_entry(name: str, process: StdioServer) -> JsonObject:
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


def _remote_entry(member: str, variable: str, **more: str) -> Callable[[str, RemoteServer], JsonObject]:
    """An entry with the address in this member; `variable` is how the client's file names an environment variable."""

    def entry(_name: str, remote: RemoteServer) -> JsonObject:
        said: JsonObject = {**more, member: remote.url}
        if remote.key_env is not None:
            if not variable:
                raise NotSupportedByClient(
                    "this client's file cannot name an environment variable, and a key does not belong into a file:"
                    " leave out --key-env, and add the header Authorization by hand if you must"
                )
            said["headers"] = {"Authorization": f"Bearer {variable.format(remote.key_env)}"}
        return said

    return entry


def _codex_remote_entry(_name: str, remote: RemoteServer) -> JsonObject:
    said: JsonObject = {"url": remote.url}
    return said if remote.key_env is None else {**said, "bearer_token_env_var": remote.key_env}


def _goose_remote_entry(name: str, remote: RemoteServer) -> JsonObject:
    about: JsonObject = {"enabled": True, "type": "streamable_http", "name": name, "description": "Tools of Toolhall"}
    return {**about, **_remote_entry("uri", "")(name, remote), "timeout": 300}


def _unsupported_remote_entry(_name: str, remote: RemoteServer) -> JsonObject:
    raise NotSupportedByClient(
        f"Claude Desktop's file only takes programs to start: add {remote.url} in its settings under Connectors (which"
        " needs https), or install the TARGET itself"
    )


MCP_CLIENTS: dict[ClientName, McpClient] = {
    "claude-desktop": McpClient(
        "Claude Desktop",
        _application_file("Claude", "claude_desktop_config.json"),
        "mcpServers",
        _stdio_entry,
        _unsupported_remote_entry,
        restart="quit Claude Desktop and start it again",
    ),
    "claude-code": McpClient(
        "Claude Code",
        _home_file(".claude.json"),
        "mcpServers",
        _typed_stdio_entry,
        _remote_entry("url", "${{{}}}", type="http"),
        ".mcp.json",
        restart="start a new session; /mcp lists it",
    ),
    "cursor": McpClient(
        "Cursor",
        _home_file(".cursor", "mcp.json"),
        "mcpServers",
        _stdio_entry,
        _remote_entry("url", "${{env:{}}}"),
        ".cursor/mcp.json",
    ),
    "vscode": McpClient(
        "VS Code",
        _application_file("Code/User", "mcp.json"),
        "servers",
        _typed_stdio_entry,
        _remote_entry("url", "${{env:{}}}", type="http"),
        ".vscode/mcp.json",
        restart="start it with 'MCP: List Servers'",
    ),
    "windsurf": McpClient(
        "Windsurf",
        _home_file(".codeium", "windsurf", "mcp_config.json"),
        "mcpServers",
        _stdio_entry,
        _remote_entry("serverUrl", "${{env:{}}}"),
    ),
    "zed": McpClient("Zed", _zed_file, "context_servers", _stdio_entry, _remote_entry("url", ""), ".zed/settings.json"),
    "codex": McpClient(
        "Codex", _codex_file, "mcp_servers", _stdio_entry, _codex_remote_entry, ".codex/config.toml", "toml"
    ),
    "gemini-cli": McpClient(
        "Gemini CLI",
        _home_file(".gemini", "settings.json"),
        "mcpServers",
        _stdio_entry,
        _remote_entry("httpUrl", "${{{}}}"),
        ".gemini/settings.json",
        restart="start it again; /mcp lists it",
    ),
    "goose": McpClient("goose", _goose_file, "extensions", _goose_stdio_entry, _goose_remote_entry, format="yaml"),
}
