"""What a hall lists of its upstreams, as a client and as an operator see it."""

import json
from typing import Any

from tests.harness.http_client import request_url
from tests.harness.mcp_messages import encoded, request_in
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncMcpClient


def listed_names(client: SyncMcpClient) -> set[str]:
    """The names of all tools, over all pages."""
    names: set[str] = set()
    params: dict[str, Any] = {}
    while True:
        page = client.ask(encoded(request_in(client.revision, "tools/list", params))).result
        names |= {tool["name"] for tool in page["tools"]}
        if "nextCursor" not in page:
            return names
        params = {"cursor": page["nextCursor"]}


def upstream_states(server: ServerProcess) -> dict[str, str]:
    """The state of each upstream."""
    reply = request_url(f"{server.origin}/api/upstreams")
    return {each["name"]: each["state"] for each in json.loads(reply.body)["upstreams"]}
