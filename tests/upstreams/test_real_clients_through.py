"""Real clients of MCP through a hall: each passes every check that it passes without one in between."""

import pytest

from tests.conformance.serving import served
from tests.conformance.test_clients import ACCEPT, CLIENTS, drive
from tests.harness.mcp_messages import MODERN
from tests.harness.server_process import eventually
from tests.harness.sync_mcp_client import SyncHttpMcpClient
from tests.upstreams.front import hall_in_front
from tests.upstreams.listing import listed_names

BULK = 120
TOOLS = (
    "add",
    "fail",
    "slow",
    "cancelled",
    "ask",
    "toggle",
    "dynamic",
    *(f"bulk_{number:03d}" for number in range(BULK)),
)


def settings(url: str) -> str:
    """The settings of the hall in front: the upstream takes the first word of the names."""
    renamed = "\n".join(f'accept_{each} = "{each}"' for each in TOOLS)
    return f"""
[upstreams.accept]
url = "{url}"
level = 2
trusted = true  # a tool comes and goes
[upstreams.accept.rename]
{renamed}
"""


@pytest.mark.parametrize("client", CLIENTS)
def test_real_client_passes_every_check_through_a_hall(client: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("hall")
    with served(ACCEPT) as upstream, hall_in_front(folder, settings(upstream.mcp)) as hall:
        listed = SyncHttpMcpClient(hall.port, MODERN)
        assert eventually(lambda: len(listed_names(listed)) > BULK)
        drive(client, [hall.mcp])
