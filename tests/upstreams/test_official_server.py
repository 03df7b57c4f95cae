"""What the official server has beside plain tools, through a hall, and through a hall in front of that one."""

import json
from collections.abc import Iterator

import pytest

from tests.harness.mcp_messages import REVISIONS, encoded, request_in
from tests.harness.server_process import ServerProcess, environment, eventually, server_process, toolhall
from tests.harness.sync_mcp_client import SyncHttpMcpClient, call_tool
from tests.upstreams.listing import upstream_states
from tests.upstreams.programs import client_file, programs

PROMPT = "completable-prompt"
TEMPLATE = "demo://resource/dynamic/text/{resourceId}"


@pytest.fixture(scope="module")
def halls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """A hall whose upstream is the official server, and one whose upstream is that hall."""
    folder = tmp_path_factory.mktemp("halls")
    chosen = {"Everything": programs(folder)["Everything"]}
    near, far = folder / "near", folder / "far"
    for each in (near, far):
        each.mkdir()
    client_file(near / "mcp.json", chosen)
    command = toolhall("serve", "mcp.json", "--port", "0", "--json")
    with server_process(command, near, env=environment(near, {}), log=near / "server.log") as first:
        assert eventually(lambda: upstream_states(first).get("Everything") == "ready"), first.log
        (far / "mcp.json").write_text(json.dumps({"mcpServers": {"Hall": {"url": f"{first.origin}/mcp"}}}))
        with server_process(command, far, env=environment(far, {}), log=far / "server.log") as second:
            assert eventually(lambda: upstream_states(second).get("Hall") == "ready"), second.log
            yield {"Everything": first, "Hall_Everything": second}


def complete(server: ServerProcess, revision: str, ref: dict[str, str], argument: str, typed: str,
             **given: str) -> list[str]:  # fmt: skip
    params = {"ref": ref, "argument": {"name": argument, "value": typed}}
    more = {"context": {"arguments": given}} if given else {}
    answer = SyncHttpMcpClient(server.port, revision).ask(
        encoded(request_in(revision, "completion/complete", {**params, **more}))
    )
    values: list[str] = answer.result["completion"]["values"]
    return values


@pytest.mark.parametrize("toolkit", ["Everything", "Hall_Everything"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_argument_of_a_prompt_is_completed_by_its_server(
    halls: dict[str, ServerProcess], toolkit: str, revision: str
) -> None:
    prompt = {"type": "ref/prompt", "name": f"{toolkit}_{PROMPT}"}
    assert complete(halls[toolkit], revision, prompt, "department", "S") == ["Sales", "Support"]
    assert complete(halls[toolkit], revision, prompt, "name", "", department="Sales") == ["David", "Eve", "Frank"]


@pytest.mark.parametrize("toolkit", ["Everything", "Hall_Everything"])
def test_variable_of_a_template_is_completed_by_its_server(halls: dict[str, ServerProcess], toolkit: str) -> None:
    template = {"type": "ref/resource", "uri": TEMPLATE}
    assert complete(halls[toolkit], REVISIONS[-1], template, "resourceId", "7") == ["7"]


@pytest.mark.parametrize("toolkit", ["Everything", "Hall_Everything"])
def test_tool_that_must_be_a_task_answers_a_plain_call(halls: dict[str, ServerProcess], toolkit: str) -> None:
    client = SyncHttpMcpClient(halls[toolkit].port, REVISIONS[-1])
    answer = call_tool(client, f"{toolkit}_simulate-research-query", topic="tides")
    assert "Research Report: tides" in answer.text, answer.result
