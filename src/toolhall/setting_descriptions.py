"""What each setting is, in one line of Markdown: `/api/settings` and docs/reference/settings.md say it alike.

Links are relative to that page; `plain_description` leaves them out.
"""

import re

DESCRIPTIONS = {
    "name": "how the hall introduces itself to clients",
    "instructions": "text for models about the hall's tools as a whole",
    "profile": "`local`: callers on this machine; `server`: needs credentials",
    "host": "the address to listen on",
    "port": "the port; 0 picks a free one",
    "public_url": (
        "where clients reach the hall, if not by `host` and `port`: `https://tools.example.com`, with "
        "the path if it is [below one](../how-to/mount.md); pages and sign-in need it"
    ),
    "data": (
        "the [data folder](#the-data-folder): records, keys, grants, secrets, registered tools; commands "
        "choose one per project"
    ),
    "page_size": "tools on one page of a listing",
    "search": (
        "MCP clients are shown `search_tools` and what is pinned; they find the rest ([how](../how-to/many-tools.md))"
    ),
    "pinned": (
        "the tools that MCP clients are always shown, and their versions: `Kit_tool`, `Kit.tool`, `Kit.tool@^1`"
    ),
    "resources_as_tools": (
        "resources are also tools, for clients that know only those: `Resources.list`, `Resources.read`, and each URI"
        " template by its variables"
    ),
    "calls_per_second": "the limit for each caller",
    "call_burst": "how many of them at once",
    "tool_limit": "a limit for each tool, all callers together: `{per_second = 10, burst = 20}`",
    "pair_limit": "a limit for each caller and tool",
    "costs": 'how many calls one call of a tool counts for: `{"Image.*" = 10}`',
    "concurrency": (
        "how many requests are answered at once (more wait for 50 ms, then get 503 with `Retry-After`), how many of"
        " them one caller may have, and how often one tool may run at once: `{total = 256, per_caller = 20, per_tool ="
        " 50}`; the latter unset, in the profile `server` half and three quarters of `total`, in `local` all of it"
        " ([how](../how-to/limit.md#concurrent-calls))"
    ),
    "call_timeout": "seconds until a tool that states no timeout is stopped",
    "max_body_bytes": "the largest message that is read",
    "max_output_bytes": "the largest result that is passed on",
    "threads": "how many sync tools run at once",
    "allowed_hosts": "hosts besides loopback that requests may be addressed to or come from",
    "record": (
        "the tools whose calls are [recorded](../how-to/replay-calls.md), by their ids: `Calendar.*`, "
        "`Weather.Get@*`, `*`; needs `data`"
    ),
    "audit_days": "after how many days whole files of the [audit](../how-to/audit.md) are dropped; 0 keeps all",
    "levels": (
        'tools whose [level](../explanation/levels.md) is at least this: `{"Mail.*" = 6}`; `toolhall '
        "list` shows the level that counts, and `list` and `serve` warn of names that match no tool"
    ),
    "steps": (
        "from which [level](../explanation/levels.md) a credential must meet further requirements: "
        "`{identified = 2, expiring = 3, recent = 7, short_lived = 11}`"
    ),
    "cedar": (
        "a file of [Cedar policies](../explanation/levels.md#cedar-instead-of-grants), which then decide "
        "in place of grants"
    ),
    "issuers": (
        'the issuers whose tokens are accepted: `[{name = "corp", issuer = "https://id.example.com"}]` '
        "([how](../how-to/sign-in.md))"
        "; with `client_id` and `client_secret`, people"
        " [sign in for the console](../how-to/console.md#sign-in-with-an-identity-provider) there"
    ),
    "resource": "the audience that tokens must name; the public URL if left out",
    "oxp_secret": "the secret that signs OXP clients' tokens (HS256); better in `TOOLHALL_OXP_SECRET_FILE`",
    "allow_anonymous": "in the `server` profile, level-0 tools that only read need no credential",
    "public_metrics": "`/metrics` needs no credential",
    "egress_allow": (
        "private hosts that the hall and its tools may reach all the same: `10.1.2.3`, "
        "`wiki.internal:8443`, `10.0.0.0/8`"
    ),
    "vault_key": (
        "the key that locks the [vault](../how-to/secrets-and-accounts.md): 32 bytes in base64, or "
        "`keyring`; better in `TOOLHALL_VAULT_KEY_FILE`"
    ),
    "providers": (
        'the OAuth providers at which users can link accounts: `{google = {client_id = "...", '
        'client_secret = "..."}}` ([how](../how-to/secrets-and-accounts.md))'
    ),
    "accept_credentials": (
        "tools whose callers may send their own secrets and tokens (OXP's `context`), by their ids: `Mail.*`"
    ),
    "idempotent": (
        "tools that do no harm when they run twice, by their ids: `Calendar.upcoming`; a call that was "
        "lost with its [tool server](../how-to/tool-servers.md) is tried once more on another"
    ),
    "upstreams": (
        'MCP servers of somebody else whose tools the hall offers: `{Docs = {url = "https://mcp.example.com/mcp"}}`'
        " ([how](../how-to/connect-an-mcp-server.md)); `mcpServers`, as clients write them, are read as such, too"
    ),
    "log_level": (
        "how much `serve` logs on its error output: `debug`, `info`, `warning`, `error` or `critical`; "
        "as `TOOLHALL_LOG_LEVEL` it also turns on the log of every other command"
    ),
    "log": (
        "how `serve` logs: `format` is `text`, or `json` with one object a line, and `auto` is text on a terminal and"
        " JSON elsewhere; with `access = true` it logs a line for every request, whatever the level: address, method,"
        " path without its query, status, milliseconds; `log_format` and `access_log` state one each"
    ),
}
_ASIDE = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")  # such as ([how](../how-to/limit.md))
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def plain_description(setting: str) -> str:
    """Return what a setting is, without links."""
    return _LINK.sub(r"\1", _ASIDE.sub("", DESCRIPTIONS[setting]))
