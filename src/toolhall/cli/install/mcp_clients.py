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
# Members of an entry that `install` writes; all others were added by the person, and are kept.
_CONNECTION_MEMBERS = frozenset(
    {"type", "command", "args", "env", "cwd", "url", "serverUrl", "httpUrl", "headers", "http_headers"}
    | {"bearer_token_env_var", "source"}
)


class StdioServer(msgspec.Struct, frozen=True):
    """A server that the client starts over stdio."""

    command: str
    args: Sequence[str]
    env: Mapping[str, str] = {}

    def entry(self) -> JsonObject:
        """Its entry in the form that most clients share."""
        entry: JsonObject = {"command": self.command, "args": list(self.args)}
        return {**entry, "env": dict(self.env)} if self.env else entry


class RemoteServer(msgspec.Struct, frozen=True):
    """A running server at a URL; `key_env` is the environment variable that holds its key."""

    url: str
    key_env: str | None = None


class NotSupportedByClient(Exception):
    """The client's file cannot express this; the message says what to do instead."""


class McpClient(NamedTuple):
    """An MCP client: where its file is, and how an entry in it looks."""

    title: str
    user_file: Callable[[System, Path, Mapping[str, str]], Path]
    servers_key: str  # the member that holds the servers
    stdio_entry: Callable[[str, StdioServer], JsonObject]
    remote_entry: Callable[[str, RemoteServer], JsonObject]
    project_file: str | None = None  # relative to the project
    format: FileFormat = "json"
    restart: str = "restart it, or reload its MCP servers"

    def config_file(self, *, project: bool) -> Path:
        """The path of the client's file on this machine."""
        if not project:
            return self.user_file(_system(), Path.home(), os.environ)
        if self.project_file is None:
            raise NotSupportedByClient(f"{self.title} has no file for one project; leave out --project")
        return Path.cwd() / self.project_file

    def entry(self, name: str, server: StdioServer | RemoteServer) -> JsonObject:
        """The entry of a server; raises NotSupportedByClient."""
        return self.stdio_entry(name, server) if isinstance(server, StdioServer) else self.remote_entry(name, server)

    def with_entry(self, text: str, name: str, entry: JsonObject) -> str:
        """The file's text with the entry; members that a person added to an old one are kept. Raises UneditableFile."""
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
        """The file's text without the entry; raises UneditableFile."""
        path = (self.servers_key, name)
        match self.format:
            case "json":
                return json_edit.remove_member(text, path)
            case "toml":
                return toml_yaml_edit.remove_toml_table(text, path)
            case "yaml":
                return toml_yaml_edit.remove_yaml_entry(text, path)

    def find_entry(self, text: str, name: str) -> JsonObject | None:
        """The entry of this name; of YAML only members in JSON notation. Raises UneditableFile."""
        if self.format == "yaml":
            return toml_yaml_edit.read_yaml_entry(text, (self.servers_key, name))
        document = json_edit.read_json(text) if self.format == "json" else toml_yaml_edit.read_toml(text)
        servers = _servers_of(document, self.servers_key)
        if name not in servers:
            return None
        return servers[name] if isinstance(servers[name], dict) else {}

    def without_empty_servers(self, text: str) -> str | None:
        """The text without the member that holds the servers; None unless it exists and is empty."""
        match self.format:
            case "json" if json_edit.read_json(text).get(self.servers_key) == {}:
                return json_edit.remove_member(text, (self.servers_key,))
            case "yaml":
                return toml_yaml_edit.remove_empty_yaml_key(text, self.servers_key)
            case _:
                return None  # a table of TOML needs no header above it

    def is_equivalent(self, one: str, other: str) -> bool:
        """Whether two texts differ at most in insignificant whitespace."""
        if self.format == "json":
            same_letters = "".join(one.split()) == "".join(other.split())
            return same_letters and json_edit.read_json(one) == json_edit.read_json(other)
        return one.rstrip() == other.rstrip()

    def is_empty(self, text: str) -> bool:
        """Whether the text holds no settings."""
        return not (json_edit.read_json(text) if self.format == "json" else text.strip())

    def render_entry(self, name: str, entry: JsonObject) -> str:
        """The text of a file with this entry alone."""
        match self.format:
            case "json":
                return json_edit.set_member("{}\n", (self.servers_key, name), entry)
            case "toml":
                return toml_yaml_edit.render_toml_table((self.servers_key, name), entry)
            case "yaml":
                return toml_yaml_edit.render_yaml_entry((self.servers_key, name), entry)


def _servers_of(document: JsonObject, key: str) -> JsonObject:
    servers = document.get(key, {})
    if not isinstance(servers, dict):
        raise UneditableFile(f"its member {key!r} is not an object")
    return servers


def _merge_entry(document: JsonObject, path: tuple[str, str], entry: JsonObject) -> JsonObject:
    """The entry with the members and environment variables that a person added to the old one."""
    old = _servers_of(document, path[0]).get(path[1])
    if not isinstance(old, dict):
        return entry
    added = {key: value for key, value in old.items() if key not in _CONNECTION_MEMBERS}
    variables = old.get("env")
    if "command" in entry and isinstance(variables, dict) and variables:
        entry = {**entry, "env": {**variables, **entry.get("env", {})}}
    return {**entry, **added}


def describe_entry(entry: JsonObject) -> str:
    """What a client did with an entry, as a clause after "which"."""
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
    """XDG_CONFIG_HOME, or ~/.config; a relative path is ignored (freedesktop.org, base directories)."""
    stated = Path(environment.get("XDG_CONFIG_HOME", ""))
    return stated if stated.is_absolute() else home / ".config"


def _windows_roaming(home: Path, environment: Mapping[str, str]) -> Path:
    return Path(environment.get("APPDATA") or home / "AppData" / "Roaming")


def _application_file(name: str, file: str) -> Callable[[System, Path, Mapping[str, str]], Path]:
    """The path of a file in the settings folder of a desktop application."""

    def path(system: System, home: Path, environment: Mapping[str, str]) -> Path:
        match system:
            case "darwin":
                return home / "Library" / "Application Support" / name / file
            case "win32":
                return _windows_roaming(home, environment) / name / file
            case "linux":
                return _config_home(home, environment) / name / file

    return path


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
    """Makes entries with the URL in `member`; `variable` is how the client's file refers to an environment variable."""

    def entry(_name: str, remote: RemoteServer) -> JsonObject:
        result: JsonObject = {**more, member: remote.url}
        if remote.key_env is not None:
            if not variable:
                raise NotSupportedByClient(
                    "this client's file cannot name an environment variable, and a key does not belong into a file:"
                    " leave out --key-env, and add the header Authorization by hand if you must"
                )
            result["headers"] = {"Authorization": f"Bearer {variable.format(remote.key_env)}"}
        return result

    return entry


def _codex_remote_entry(_name: str, remote: RemoteServer) -> JsonObject:
    entry: JsonObject = {"url": remote.url}
    return entry if remote.key_env is None else {**entry, "bearer_token_env_var": remote.key_env}


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
