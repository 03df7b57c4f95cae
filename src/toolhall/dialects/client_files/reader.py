"""Reads a client's file as upstreams: read_client_file recognises it by its content, not by its name.

One server that cannot be read does not stop the others. What the file has and an upstream has not is listed as losses.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from toolhall.dialects.base import Loss
from toolhall.dialects.client_files.codex import read_codex_entry
from toolhall.dialects.client_files.commented_json import (
    WHITESPACE_AND_COMMENTS,
    BadClientText,
    JsonNode,
    line_and_column,
    parse_commented_json,
)
from toolhall.dialects.client_files.entries import read_entry
from toolhall.dialects.client_files.registry_entry import read_registry_entry
from toolhall.dialects.client_files.server import (
    MAX_SERVERS,
    ClientFile,
    ClientInput,
    ClientKind,
    ClientServer,
    DraftProblem,
    EnvFileReader,
    Path,
    ServerDraft,
    plain_object,
    unique_names,
)
from toolhall.model.json import Json, JsonObject
from toolhall.model.text import clean_text

MAX_TEXT = 1024 * 1024
_TOML_TABLE = re.compile(r"(?m)^[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*([\"']?)([^\]\"'\n]+?)\1[ \t]*\]")
_REGISTRY_SCHEMA = "server.schema.json"
_UNREAD = "it is no server"
# Members that are expected beside the servers.
_SILENT = frozenset({"$schema", "inputs"})
_OF_WHOLE_SETTINGS = ("VS Code settings", "Zed", "Codex", "opencode")  # files with many other settings


class _Place(NamedTuple):
    """What kind of file it is, and where its servers are."""

    kind: ClientKind
    path: Path


class _Terms(NamedTuple):
    """What all entries of a file are read with."""

    variables: Mapping[str, str]
    env_files: EnvFileReader | None
    line_of: Callable[[Path], int | None]
    inputs: Mapping[str, ClientInput] = {}


def client_kind(document: Json) -> ClientKind | None:
    """What kind of client's file a document is, or None."""
    place = _place_of(document)
    return None if place is None else place.kind


def looks_like_toml(text: str) -> bool:
    """Whether a text is rather TOML than JSON."""
    start = WHITESPACE_AND_COMMENTS.match(text)
    return text[start.end() if start else 0 :][:1] not in ("{", '"') and not text.lstrip("\ufeff \t\r\n").startswith(
        "//"
    )


def read_client_file(
    text: str, variables: Mapping[str, str], env_files: EnvFileReader | None = None
) -> ClientFile | None:
    """The servers of a file of a known kind; None if it is of no such kind. Raises BadClientText.

    `variables` are described in `variables`; `env_files` gives the text of a file that an entry names in `envFile`.
    """
    if len(text) > MAX_TEXT:
        raise BadClientText(f"it has more than {MAX_TEXT} characters; a client's file is much smaller")
    if _is_other_json(text):
        return None
    document, lines = _parse(text)
    return read_client_document(document, variables, env_files, lines)


def read_client_document(
    document: Json,
    variables: Mapping[str, str],
    env_files: EnvFileReader | None = None,
    line_of: Callable[[Path], int | None] = lambda _: None,
) -> ClientFile | None:
    """Read a document that is parsed already, such as a table of the hall's own settings."""
    place = _place_of(document)
    if place is None or not isinstance(document, dict):
        return None
    if place.kind == "registry server.json":
        return _read_registry(document, place.path, _Terms(variables, env_files, line_of))
    holder: JsonObject = document
    for key in place.path[:-1]:
        holder = holder[str(key)]
    entries = plain_object(holder[str(place.path[-1])])
    if len(entries) > MAX_SERVERS:
        raise BadClientText(f"it has more than {MAX_SERVERS} servers")
    terms = _Terms({**_input_defaults(holder), **variables}, env_files, line_of, _inputs_of(holder))
    servers = [
        _read_server(name, (*place.path, key), entry, place.kind, terms)
        for (key, entry), name in zip(entries.items(), unique_names(entries), strict=True)
    ]
    return ClientFile(kind=place.kind, servers=tuple(servers), losses=_other_members(document, place))


def _is_other_json(text: str) -> bool:
    """Whether a text is plain JSON and no client's file, such as definitions of tools: found out in C."""
    try:
        return client_kind(msgspec.json.decode(text)) is None
    except (msgspec.DecodeError, RecursionError, UnicodeError):  # it may have comments
        return False


def _parse(text: str) -> tuple[Json, Callable[[Path], int | None]]:
    """The document, and a function that tells the line of a part of it."""
    if looks_like_toml(text):
        try:
            document = tomllib.loads(text.removeprefix("\ufeff"))
        except (tomllib.TOMLDecodeError, RecursionError) as wrong:
            raise BadClientText(f"it is neither JSON nor TOML: {wrong}") from None
        places = {found[2].strip(): text.count("\n", 0, found.start()) + 1 for found in _TOML_TABLE.finditer(text)}
        return document, lambda path: places.get(str(path[-1])) if path else None
    root = parse_commented_json(text)
    _refuse_doubles(text, root)
    return root.value, lambda path: _line_of(text, root, path)


def _refuse_doubles(text: str, root: JsonNode) -> None:
    """Raise BadClientText for a key that occurs twice: readers differ in which of the two counts."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        known: set[str] = set()
        for member in node.members or ():
            if member.key in known:
                line, column = line_and_column(text, member.start)
                raise BadClientText(
                    f"line {line}, column {column}: {clean_text(member.key)[:80]!r} is there twice; remove one"
                )
            known.add(member.key)
            nodes.append(member.value)
        nodes.extend(node.items or ())


def _line_of(text: str, node: JsonNode, path: Path) -> int | None:
    start = node.start
    for key in path:
        found = next((each for each in node.members or () if each.key == key), None)
        if found is None:
            break
        node, start = found.value, found.start
    return line_and_column(text, start)[0]


def _place_of(document: Json) -> _Place | None:
    """Where the servers are, by the members of the document."""
    if not isinstance(document, dict):
        return None
    nested = document.get("mcp")
    known: tuple[tuple[bool, _Place], ...] = (
        (isinstance(document.get("mcpServers"), dict), _Place("mcpServers", ("mcpServers",))),
        (_has_entries(document.get("servers")) and "openapi" not in document, _Place("VS Code", ("servers",))),
        (isinstance(document.get("context_servers"), dict), _Place("Zed", ("context_servers",))),
        (isinstance(document.get("mcp_servers"), dict), _Place("Codex", ("mcp_servers",))),
        (_has_entries(plain_object(nested).get("servers")), _Place("VS Code settings", ("mcp", "servers"))),
        (_has_entries(nested), _Place("opencode", ("mcp",))),
    )
    return next((place for is_it, place in known if is_it), None) or _registry_place(document)


def _has_entries(value: Json) -> bool:
    """Whether a value is a table of servers."""
    return any(
        isinstance(each, dict) and {"command", "url", "type"} & each.keys() for each in plain_object(value).values()
    )


def _registry_place(document: JsonObject) -> _Place | None:
    for path, server in (((), document), (("server",), plain_object(document.get("server")))):
        has_lists = isinstance(server.get("remotes"), list) or isinstance(server.get("packages"), list)
        if isinstance(server.get("name"), str) and (has_lists or _REGISTRY_SCHEMA in str(server.get("$schema", ""))):
            return _Place("registry server.json", path)
    return None


def _read_server(name: str, path: Path, entry: Json, kind: ClientKind, terms: _Terms) -> ClientServer:
    draft = ServerDraft(str(path[-1]), path, terms.variables, opencode=kind == "opencode", env_files=terms.env_files)
    try:
        if kind == "Codex":
            read_codex_entry(draft, entry)
        else:
            read_entry(draft, entry, kind)
    except DraftProblem as problem:
        return draft.refuse(name, terms.line_of(path), str(problem))
    return draft.finish(name, terms.line_of(path), terms.inputs)


def _read_registry(document: JsonObject, path: Path, terms: _Terms) -> ClientFile:
    entry = plain_object(document["server"]) if path else document
    key = str(entry["name"])
    name = unique_names([key])[0]
    draft = ServerDraft(key, path, terms.variables)
    try:
        read_registry_entry(draft, entry)
    except DraftProblem as problem:
        server = draft.refuse(name, terms.line_of(path), str(problem))
    else:
        server = draft.finish(name, terms.line_of(path), {})
    return ClientFile(kind="registry server.json", servers=(server,))


def _inputs_of(holder: JsonObject) -> dict[str, ClientInput]:
    """The inputs that VS Code would ask for, by the name of their variable."""
    found: dict[str, ClientInput] = {}
    listed = holder.get("inputs")
    for each in listed if isinstance(listed, list) else ():
        described = plain_object(each)
        if isinstance(described.get("id"), str):
            text = described.get("description")
            found[f"input:{described['id']}"] = ClientInput(
                described["id"],
                clean_text(text)[:500] if isinstance(text, str) else "",
                described.get("password") is True,
            )
    return found


def _input_defaults(holder: JsonObject) -> dict[str, str]:
    listed = holder.get("inputs")
    return {
        f"input:{each['id']}": each["default"]
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("id"), str) and isinstance(each.get("default"), str)
    }


def _other_members(document: JsonObject, place: _Place) -> tuple[Loss, ...]:
    """The members beside the servers; of files that hold all settings of a client none, because they are not meant."""
    if place.kind in _OF_WHOLE_SETTINGS:
        return ()
    return tuple(
        Loss(f"/{clean_text(key)[:80]}", _UNREAD) for key in document if key != place.path[0] and key not in _SILENT
    )
