"""Entries of Codex, `[mcp_servers.NAME]` in TOML: read_codex_entry fills a ServerDraft from one.

Codex names variables where other clients write them: `bearer_token_env_var`, `env_http_headers`, `env_vars`.
"""

from toolhall.dialects.client_files.server import DraftProblem, ServerDraft
from toolhall.model.json import Json, JsonObject

_WRONG_NAMES = {
    "headers": "Codex does not read headers; write http_headers, or env_http_headers for names of variables",
    "bearer_token": "Codex does not read bearer_token; write bearer_token_env_var with the name of a variable",
}
_TIMES = "the hall waits as long as a call's own deadline"
_REASONS = {
    "startup_timeout_sec": _TIMES,
    "startup_timeout_ms": _TIMES,
    "supports_parallel_tool_calls": "the hall's limits decide; see the setting concurrency",
    "default_tools_approval_mode": "the hall decides by levels, grants and approvals; see 'toolhall grant'",
    "tools": "the hall decides by levels, grants and approvals; see 'toolhall grant'",
    "scopes": "the hall asks for the scopes that the server names",
    "oauth_resource": "the hall takes the resource that the server names",
    "experimental_environment": "no upstream has such a member",
}
_READ = frozenset(
    (
        *("command", "args", "env", "env_vars", "cwd"),
        *("url", "bearer_token_env_var", "http_headers", "env_http_headers"),
        *("enabled", "enabled_tools", "disabled_tools", "required", "tool_timeout_sec"),
    )
)


def read_codex_entry(draft: ServerDraft, entry: Json) -> None:
    """Fill the draft from a table of Codex; raises DraftProblem."""
    if not isinstance(entry, dict):
        raise DraftProblem("it is no table; write [mcp_servers.NAME] with command or url")
    for wrong, fix in _WRONG_NAMES.items():
        if wrong in entry:
            raise DraftProblem(fix)
    if ("command" in entry) == ("url" in entry):
        stated = "command and url" if "url" in entry else "neither command nor url"
        raise DraftProblem(f"it has {stated}; write one of them")
    if "command" in entry:
        _read_command(draft, entry)
    else:
        _read_url(draft, entry)
    _read_rest(draft, entry)


def _read_command(draft: ServerDraft, entry: JsonObject) -> None:
    draft.parts["command"] = draft.text(entry["command"], "command")
    if "args" in entry:
        draft.parts["args"] = draft.texts(entry["args"], "args")
    if "cwd" in entry:
        draft.parts["cwd"] = draft.text(entry["cwd"], "cwd")
    if "env_vars" in entry:
        names = [_variable_name(each) for each in _listed(entry["env_vars"])]
        draft.add_members("env", {name: draft.lookup(name, may_hold_secret=True) for name in names})
    if "env" in entry:
        draft.add_members("env", draft.secret_texts(entry["env"], "env"))
    for member in ("http_headers", "env_http_headers", "bearer_token_env_var"):
        if member in entry:
            draft.lose(member, reason="a command has no headers")


def _read_url(draft: ServerDraft, entry: JsonObject) -> None:
    draft.parts["url"] = draft.text(entry["url"], "url")
    if "http_headers" in entry:
        draft.add_members("headers", draft.secret_texts(entry["http_headers"], "http_headers"))
    variables = entry.get("env_http_headers", {})
    if not isinstance(variables, dict):
        raise DraftProblem("env_http_headers is no table; write the name of a variable for each header")
    draft.add_members(
        "headers", {name: draft.lookup(_variable_name(each), may_hold_secret=True) for name, each in variables.items()}
    )
    if "bearer_token_env_var" in entry:
        token = draft.lookup(_variable_name(entry["bearer_token_env_var"]), may_hold_secret=True)
        draft.add_members("headers", {"Authorization": f"Bearer {token}"})
    for member in ("args", "cwd", "env", "env_vars"):
        if member in entry:
            draft.lose(member, reason="a server at an URL has no environment")


def _read_rest(draft: ServerDraft, entry: JsonObject) -> None:
    if "enabled_tools" in entry:
        draft.parts["only"] = draft.texts(entry["enabled_tools"], "enabled_tools")
    if "disabled_tools" in entry:
        draft.parts["except"] = draft.texts(entry["disabled_tools"], "disabled_tools")
    timeout = entry.get("tool_timeout_sec")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
            raise DraftProblem("tool_timeout_sec is no number above 0")
        draft.parts["timeout"] = float(timeout)
    if entry.get("enabled") is False:
        draft.parts["off"] = True
    if entry.get("required") is True:
        draft.parts["required"] = True
    for member in entry:
        if member not in _READ:
            draft.lose(member, reason=_REASONS.get(member, "no upstream has such a member"))


def _listed(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise DraftProblem("env_vars is no list; write a list of names of variables")
    return value


def _variable_name(value: Json) -> str:
    """The name of a variable; newer files write it as a table with `name`."""
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str) or not name:
        raise DraftProblem("the name of a variable is no text")
    return name
