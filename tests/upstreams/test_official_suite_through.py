"""The official MCP conformance suite at every revision, through a hall in front of another that passes it.

A hall publishes a tool as `Toolkit_tool`. So that the names are those that the suite asks for, the upstreams are called
as their first words, and `rename` takes these off the names of the tools.
"""

from pathlib import Path

import pytest

from tests.conformance.serving import served
from tests.conformance.test_official_suite import RUN, run
from tests.harness.mcp_messages import REVISIONS
from tests.harness.server_process import eventually
from tests.harness.sync_mcp_client import SyncHttpMcpClient
from tests.upstreams.front import hall_in_front
from tests.upstreams.listing import listed_names

TOOLS = """
    simple_text image_content audio_content embedded_resource multiple_content_types error_handling x_mcp_header
    tool_with_progress tool_with_logging logging_tool reconnection trigger_tool_change trigger_prompt_change sampling
    elicitation elicitation_sep1034_defaults elicitation_sep1330_enums streaming_elicitation missing_capability
    input_required_result_elicitation input_required_result_sampling input_required_result_list_roots
    input_required_result_request_state input_required_result_multiple_inputs input_required_result_multi_round
    input_required_result_tampered_state input_required_result_capabilities
    simple_prompt prompt_with_arguments prompt_with_embedded_resource prompt_with_image input_required_result_prompt
"""
SCHEMA_TOOL = "json_schema_2020_12_tool"


def settings(url: str) -> str:
    """The settings of the hall in front: each upstream takes the names that begin with its own."""
    renamed = "\n".join(f'test_{each} = "{each}"' for each in TOOLS.split())
    return f"""
[upstreams.test]
url = "{url}"
level = 2
trusted = true  # the suite has tools that add and remove others
only = ["test_*", "test:*"]
[upstreams.test.rename]
{renamed}
[upstreams.json]
url = "{url}"
level = 2
only = ["json_*"]
rename = {{ {SCHEMA_TOOL} = "{SCHEMA_TOOL.removeprefix("json_")}" }}
"""


@pytest.mark.parametrize("revision", REVISIONS)
def test_official_suite_passes_through_a_hall(revision: str, tmp_path: Path) -> None:
    results, folder = tmp_path / "results", tmp_path / "hall"
    results.mkdir()
    folder.mkdir()
    with served("everything.py") as upstream, hall_in_front(folder, settings(upstream.mcp)) as hall:
        client = SyncHttpMcpClient(hall.port, revision)
        assert eventually(lambda: SCHEMA_TOOL in (names := listed_names(client)) and "test_simple_text" in names)
        scenarios = run(hall.mcp, revision, results)
    assert len(scenarios) == RUN[revision]
    failures = [line for scenario in scenarios for line in scenario.failures()]
    assert not failures, "\n".join(failures)
