"""Options of commands as dataclasses: ServeOptions, SourceOptions, ListToolsOptions, CallOptions and others.

They import no parser: the fast parser (`cli/fast_parser.py`) makes a table of their fields, and cyclopts (`cli/app.py`)
reads their types and docstrings. What only cyclopts knows, such as short names, is added in `cli/parameters.py`.
They are neither compared nor printed, and each method that dataclasses generates costs start-up time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

KindOption: TypeAlias = Literal["tool", "resource", "prompt"]


@dataclass(frozen=True, eq=False, repr=False)
class ServeOptions:
    """Options of `toolhall serve`.

    Parameters
    ----------
    host
        Where to listen; this machine only. [default: 127.0.0.1]
    port
        0 picks a free one. [default: 8000, with --join 0]
    data
        Folder of records and keys. [default: one per project, shown at the start]
    config
        Settings file. [default: toolhall.toml, if there is one]
    profile
        Who may call. [default: local]
    stdio
        Serve one dialect on standard input and output.
    dialect
        Which one, with --stdio. [default: mcp]
    reload
        Start again when a file changes.
    workers
        Processes that share the port.
    join
        Run the tools for the hall at this URL, as its tool server, such as --join http://127.0.0.1:8000.
    name
        What this tool server is called, with --join. [default: its first toolkit]
    key_file
        File that holds the key for the hall, with --join. [default: the variable TOOLHALL_KEY]
    socket
        With --join: be called over a socket to the hall, and listen on no port.
    advertise
        With --join: the URL at which the hall reaches this server. [default: http://HOST:PORT]
    json
        Print one JSON line with the url and the pid, and with --join the hall.
    """

    host: str | None = None
    port: int | None = None
    data: Path | None = None
    config: Path | None = None
    profile: Literal["local", "server"] | None = None
    stdio: bool = False
    dialect: Literal["mcp", "machine", "hub"] | None = None
    reload: bool = False
    workers: int = 1
    join: str | None = None
    name: str | None = None
    key_file: Path | None = None
    socket: bool = False
    advertise: str | None = None
    json: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class SourceOptions:
    """Options that name the source of tools, and the output format.

    Parameters
    ----------
    url
        A running server: its base URL, or its /mcp URL.
    target
        TARGET, where the bare word could be taken for something else.
    json
        Print JSON.
    key
        The API key or token to send to --url; better put it into TOOLHALL_KEY, because others can read command lines.
    """

    url: str | None = None
    target: str | None = None
    json: bool = False
    key: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ListToolsOptions(SourceOptions):
    """Options of `toolhall list`.

    Parameters
    ----------
    dialect
        Print the documents of a dialect: mcp (the newest revision), mcp@REVISION, oxp, hub, machine, openapi, openai,
        openai@strict, anthropic, gemini.
    config
        Settings file, for the levels in it. [default: toolhall.toml, if there is one]
    kind
        Only what is of this kind.
    """

    dialect: str | None = None
    config: Path | None = None
    kind: KindOption | None = None


@dataclass(frozen=True, eq=False, repr=False)
class InspectOptions(SourceOptions):
    """Options of `toolhall inspect`.

    Parameters
    ----------
    kind
        Only what is of this kind.
    """

    kind: KindOption | None = None


@dataclass(frozen=True, eq=False, repr=False)
class GetPromptOptions(SourceOptions):
    """Options of `toolhall prompt`, which `toolhall read` has as well.

    Parameters
    ----------
    timeout
        Seconds to wait for the answer.
    data
        Folder of the secrets and accounts that it needs. [default: one per project]
    """

    timeout: float = 30
    data: Path | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ReadOptions(GetPromptOptions):
    """Options of `toolhall read`.

    Parameters
    ----------
    out
        The file to write. [default: the standard output]
    """

    out: Path | None = None


@dataclass(frozen=True, eq=False, repr=False)
class CallOptions(SourceOptions):
    """Options of `toolhall call`.

    Parameters
    ----------
    args
        The arguments as one JSON object; key=value adds to them.
    yes
        Do not ask before a tool that changes something.
    timeout
        Seconds to wait for the answer.
    data
        Folder of the log of calls. [default: one per project]
    """

    args: str | None = None
    yes: bool = False
    timeout: float = 30
    data: Path | None = None
