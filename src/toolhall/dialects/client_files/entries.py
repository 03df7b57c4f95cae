"""Entries of servers as JSON clients write them: read_entry fills a ServerDraft from one, whatever client wrote it.

Files are copied from client to client, so one reader knows the members of all of them, and only what means different
things in different clients depends on the kind of the file.
"""

from collections.abc import Callable
from typing import TypeAlias

from toolhall.dialects.client_files.server import ClientKind, DraftProblem, ServerDraft, plain_object
from toolhall.model.json import Json, JsonObject

_SSE = ("sse",)
_HTTP = ("http", "https", "remote", "streamable-http", "streamable_http", "streamableHttp", "streamablehttp")
_STDIO = ("stdio", "local", "command")
_ONLY = ("includeTools", "enabledTools", "enabled_tools", "allowedTools", "tools")
_EXCEPT = ("excludeTools", "disabledTools", "disabled_tools")
_URLS = ("url", "serverUrl", "httpUrl")
_HEADERS = ("headers", "http_headers", "requestInit")
_ENVIRONMENTS = ("env", "environment")
_MILLISECONDS_FROM = 1_000  # nobody lets one call take a quarter of an hour, and none is over in a second
# Members that clients have, and why an upstream has none of them.
_REASONS = {
    "alwaysAllow": "the hall decides by levels, grants and approvals; see 'toolhall grant'",
    "autoApprove": "the hall decides by levels, grants and approvals; see 'toolhall grant'",
    "autoAllow": "the hall decides by levels, grants and approvals; see 'toolhall grant'",
    "trust": "the hall decides by levels, grants and approvals; see 'toolhall grant'",
    "oauth": "the hall links accounts itself: auth = \"oauth\"",
    "auth": "the hall links accounts itself: auth = \"oauth\"",
    "authProviderType": "the hall links accounts itself: auth = \"oauth\"",
    "settings": "it is read by an extension of the editor",
    "dev": "it is about the development of the server",
    "sandboxEnabled": "the hall has no sandbox for servers of others",
    "sandbox": "the hall has no sandbox for servers of others",
}  # fmt: skip
_SILENT = frozenset(
    {"description", "disabled", "enabled", "gallery", "icon", "name", "source", "title", "type", "version"}
)
_UNKNOWN = "no upstream has such a member"
MemberReader: TypeAlias = Callable[[ServerDraft, Json, str], None]


def read_entry(draft: ServerDraft, entry: Json, kind: ClientKind) -> None:
    """Fill the draft from an entry of any JSON client; raises DraftProblem."""
    if not isinstance(entry, dict):
        raise DraftProblem("it is no table; write a table with command or url")
    entry = _unfolded(entry)
    _read_target(draft, entry, kind)
    for member, value in entry.items():
        reader = _READERS.get(member)
        if reader is not None:
            reader(draft, value, member)
        elif member not in _SILENT and member not in _TARGET_MEMBERS:
            draft.lose(member, reason=_REASONS.get(member, _UNKNOWN))
    draft.parts |= {"off": True} if _is_off(entry) else {}
    if "timeout" in entry:
        draft.parts["timeout"] = _timeout(entry["timeout"], entry, kind)


def _unfolded(entry: JsonObject) -> JsonObject:
    """The entry with the members of a nested `transport`, and of a `command` that is a table (older Zed)."""
    for member in ("transport", "command"):
        if isinstance(entry.get(member), dict):
            nested = dict(entry[member])
            if "path" in nested:
                nested["command"] = nested.pop("path")
            entry = {**{name: value for name, value in entry.items() if name != member}, **nested}
    if isinstance(entry.get("transport"), str):
        entry = {"type": entry["transport"], **entry}
        del entry["transport"]
    return entry


def _read_target(draft: ServerDraft, entry: JsonObject, kind: ClientKind) -> None:
    stated = entry.get("type")
    urls = [name for name in _URLS if isinstance(entry.get(name), str)]
    if stated is not None and stated not in (*_SSE, *_HTTP, *_STDIO):
        raise DraftProblem("type is none of stdio, http and sse; an upstream has no other transport")
    if kind == "Zed" and entry.get("source") == "extension" and "command" not in entry and not urls:
        raise DraftProblem("an extension of Zed starts it; write its command or url instead")
    has_command = entry.get("command") is not None
    if has_command and urls and stated is None:
        raise DraftProblem(f"it has command and {urls[0]}; leave out one of them")
    if has_command and (not urls or stated in _STDIO):
        _read_command(draft, entry)
        for name in urls:
            draft.lose(name, reason="the server is a command")
    elif urls:
        chosen = "httpUrl" if "httpUrl" in urls else urls[0]  # Gemini prefers it, too
        draft.parts["url"] = draft.text(entry[chosen], chosen)
        is_gemini_sse = chosen == "url" and stated is None and _is_gemini(entry)
        if stated in _SSE or is_gemini_sse:
            draft.parts["transport"] = "sse"
        for name in (*(each for each in urls if each != chosen), "command", "args", "cwd"):
            if entry.get(name) is not None:
                draft.lose(name, reason="the server is reached at an URL")
    else:
        raise DraftProblem("it has neither command nor url; write one of them")


def _read_command(draft: ServerDraft, entry: JsonObject) -> None:
    command = entry["command"]
    if isinstance(command, list):
        if not command:
            raise DraftProblem("command is an empty list; write the program and its arguments")
        words = draft.texts(command, "command")
        draft.parts |= {"command": words[0], "args": words[1:]}
    else:
        draft.parts["command"] = draft.text(command, "command")
    if entry.get("args") is not None:
        known = draft.parts.get("args")
        draft.parts["args"] = (*(known if isinstance(known, tuple) else ()), *draft.texts(entry["args"], "args"))
    if entry.get("cwd") is not None:
        draft.parts["cwd"] = draft.text(entry["cwd"], "cwd")


def _is_gemini(entry: JsonObject) -> bool:
    """Whether only Gemini writes such an entry: its `url` is the old transport."""
    return "includeTools" in entry or "excludeTools" in entry or "trust" in entry


def _is_off(entry: JsonObject) -> bool:
    return entry.get("disabled") is True or entry.get("enabled") is False


def _timeout(value: Json, entry: JsonObject, kind: ClientKind) -> float:
    """Seconds: Gemini and opencode write milliseconds, Cline and Zed seconds, and a large number is milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise DraftProblem("timeout is no number above 0")
    in_milliseconds = kind == "opencode" or "httpUrl" in entry or _is_gemini(entry) or value >= _MILLISECONDS_FROM
    return value / 1_000 if in_milliseconds else float(value)


def _read_environment(draft: ServerDraft, value: Json, member: str) -> None:
    if value is not None and "url" not in draft.parts:
        draft.add_members("env", draft.secret_texts(value, member))
    elif value:
        draft.lose(member, reason="a server at an URL has no environment")


def _read_env_file(draft: ServerDraft, value: Json, member: str) -> None:
    file = draft.text(value, member)
    if "url" in draft.parts:
        draft.lose(member, reason="a server at an URL has no environment")
        return
    text = draft.read_env_file(file) if draft.read_env_file is not None else None
    if text is None:
        draft.lose(member, reason="the file cannot be read from here; write its variables into env")
        return
    stated = draft.parts.get("env")
    draft.parts["env"] = {**_variables_of(text), **(stated if isinstance(stated, dict) else {})}  # env wins


def _variables_of(text: str) -> dict[str, str]:
    """The variables of a .env file: NAME=VALUE lines, quoted or not, with comments."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        value = value.strip()
        if equals and not name.startswith("#"):
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[name.strip()] = value[1:-1] if quoted else value.partition(" #")[0].rstrip()
    return found


def _read_headers(draft: ServerDraft, value: Json, member: str) -> None:
    headers = plain_object(value).get("headers") if member == "requestInit" else value
    if headers is not None and "url" in draft.parts:
        draft.add_members("headers", draft.secret_texts(headers, member))
    elif headers:
        draft.lose(member, reason="a command has no headers")


def _read_only(draft: ServerDraft, value: Json, member: str) -> None:
    names = () if value is None else draft.texts(value, member)
    if names and "*" not in names:
        draft.parts["only"] = names


def _read_except(draft: ServerDraft, value: Json, member: str) -> None:
    draft.parts["except"] = () if value is None else draft.texts(value, member)


_TARGET_MEMBERS = frozenset({*_URLS, "command", "args", "cwd", "timeout"})
_READERS: dict[str, MemberReader] = {
    "envFile": _read_env_file,
    **dict.fromkeys(_ENVIRONMENTS, _read_environment),
    **dict.fromkeys(_HEADERS, _read_headers),
    **dict.fromkeys(_ONLY, _read_only),
    **dict.fromkeys(_EXCEPT, _read_except),
}
