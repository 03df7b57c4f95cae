"""ContextForge, set up as lean as its settings allow: no authentication, no pages, no limits, and SQLite."""

import http.client
import json
from pathlib import Path

from bench import messages
from bench.client import Client
from bench.launch import ROOT, Server, apart
from bench.process import Process, free_port
from bench.storm import anonymous

COMMAND = ROOT / ".venv-gateways" / "bin" / "mcpgateway"
UPSTREAM = "peer"

_OFF = (
    "auth_required mcp_require_auth email_auth_enabled mcpgateway_ui_enabled mcpgateway_admin_api_enabled csrf_enabled"
    " rate_limiting_enabled plugins_enabled compression_enabled correlation_id_enabled security_headers_enabled"
    " header_size_validation_enabled token_usage_logging_enabled structured_logging_enabled llmchat_enabled"
    " performance_tracking_enabled db_metrics_recording_enabled metrics_aggregation_enabled metrics_rollup_enabled"
    " metrics_cleanup_enabled mcpgateway_a2a_enabled mcpgateway_catalog_enabled mcpgateway_tool_cancellation_enabled"
    " client_disconnect_middleware_enabled legacy_api_enabled"
)
_SETTINGS = {name.upper(): "false" for name in _OFF.split()} | {
    "ALLOW_UNAUTHENTICATED_ADMIN": "true",  # who registers the server behind it
    "AUTH_ENCRYPTION_SECRET": messages.KEY[::-1],
    "CACHE_TYPE": "memory",
    "ENVIRONMENT": "development",
    "JWT_SECRET_KEY": messages.KEY,
    "SSRF_ALLOW_LOCALHOST": "true",
    "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
}


def start_forge(name: str, folder: Path, *, session: bool) -> Server:
    """One that keeps sessions, and one connection to the server behind it for each; or one that does not."""
    port = free_port()
    kept = {"DATABASE_URL": f"sqlite:///{folder / 'forge.db'}", "USE_STATEFUL_SESSIONS": json.dumps(session)}
    command = [str(COMMAND), "--host", "127.0.0.1", "--port", str(port), "--no-access-log"]
    return Server(Process(name, command, apart(folder, **_SETTINGS, **kept)), port)


def register(forge: Server, url: str) -> None:
    """Let everybody call the tools of the server there."""
    body = {"name": UPSTREAM, "url": url, "transport": "STREAMABLEHTTP", "visibility": "public"}
    connection = http.client.HTTPConnection("127.0.0.1", forge.port, timeout=60)
    connection.request("POST", "/v1/gateways", json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    if response.status not in (200, 201):
        raise RuntimeError(f"{forge.process.name}: HTTP {response.status}: {answer[:500].decode(errors='replace')}")


def forge_call(forge: Server, *, session: bool) -> messages.Spoken:
    """In 2025-11-25, the newest revision that it speaks, and by the name that it gives the tool."""
    call = messages.mcp_call(_open_session(forge) if session else "")
    headers = {name: value for name, value in anonymous(call.headers).items() if value}
    return call._replace(headers=headers, body=call.body.replace('"add"', f'"{UPSTREAM}-add"'))


def _open_session(forge: Server) -> str:
    plain = anonymous(messages.headers("initialize", session=""))
    del plain["mcp-session-id"], plain["mcp-protocol-version"]
    with Client(forge.port) as client:
        _, session = client.post(messages.request("initialize", messages.CLIENT), plain)
        if session is None:
            raise RuntimeError("initialize opened no session")
        client.post(messages.INITIALIZED, anonymous(messages.headers("", session=session)))
    return session
