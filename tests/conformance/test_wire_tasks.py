"""Long calls on the wire: the extension of 2026-07-28, the core tasks of 2025-11-25, and neither in 2025-06-18."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.conformance import judge
from tests.conformance.serving import own_pipes, served
from tests.harness.http_client import Json, Message
from tests.harness.mcp_client import (
    EVERY_FEATURE,
    HttpMcpClient,
    McpClient,
    http_mcp_client,
    stdio_mcp_client,
)
from tests.harness.mcp_messages import MODERN, SUBSCRIPTION_KEY, McpAnswer, modern_meta, modern_request
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess

TOOLS = "task_tools.py"
EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
CORE = "2025-11-25"
OLDEST = "2025-06-18"
TAKES_TASKS: Message = {**EVERY_FEATURE, "extensions": {EXTENSION: {}}}
ADA: Message = {"action": "accept", "content": {"name": "Ada"}}
UNKNOWN = "0" * 32
INVALID, NO_METHOD, LACKING, MISMATCH = -32602, -32601, -32021, -32020


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A server of task_tools.py."""
    with served(TOOLS) as running:
        yield running


@pytest.fixture
async def modern(server: ServerProcess) -> AsyncIterator[HttpMcpClient]:
    """A client of 2026-07-28 that takes tasks."""
    async with http_mcp_client(server.origin, MODERN, TAKES_TASKS) as client:
        yield client


@pytest.fixture
async def core(server: ServerProcess) -> AsyncIterator[HttpMcpClient]:
    """A client of 2025-11-25."""
    async with http_mcp_client(server.origin, CORE) as client:
        yield client


async def created(client: McpClient, tool: str, **arguments: Json) -> Message:
    """The task that a call became, in either revision."""
    params: Message = {"name": tool, "arguments": arguments}
    answer = await client.ask("tools/call", params if client.modern else {**params, "task": {}})
    found: Message = answer.result if client.modern else answer.result["task"]
    return found


async def seen(client: McpClient, task_id: str, *states: str) -> Message:
    """The task once it has one of these states; the server says when it is looked at too often."""
    async with asyncio.timeout(patience()):
        while True:
            answer = await client.ask("tasks/get", {"taskId": task_id})
            if "result" in answer.message and answer.result["status"] in states:
                found: Message = answer.result
                return found


async def code_of(client: McpClient, method: str, **params: Json) -> int | None:
    """The code of the error with which a request is answered."""
    return (await client.ask(method, params)).code


# --- what is declared -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TA-1", "TE-1")
async def test_tasks_are_declared_where_the_revision_has_them(server: ServerProcess, modern: HttpMcpClient) -> None:
    capabilities = (await modern.ask("server/discover")).result["capabilities"]
    assert capabilities["extensions"] == {EXTENSION: {}}
    assert "tasks" not in capabilities
    for revision in (OLDEST, CORE):
        async with http_mcp_client(server.origin, revision) as client:
            capabilities = (await client.start())["capabilities"]
            expected: Message | None = (
                {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}} if revision == CORE else None
            )
            assert capabilities.get("tasks") == expected
            assert "extensions" not in capabilities


@pytest.mark.requirement("TA-2")
async def test_tools_state_their_task_support_in_2025_11_25_only(server: ServerProcess) -> None:
    for revision in (OLDEST, CORE, MODERN):
        async with http_mcp_client(server.origin, revision) as client:
            stated = {tool["name"]: tool.get("execution") for tool in await client.tools()}
        assert (stated["plain"], stated["offered"], stated["required"]) == (
            (None, {"taskSupport": "optional"}, {"taskSupport": "required"}) if revision == CORE else (None, None, None)
        )


# --- the extension of 2026-07-28 --------------------------------------------------------------------------------------


@pytest.mark.requirement("TE-3", "TE-4")
async def test_extension_task_is_there_at_once_and_ends_with_its_result(modern: HttpMcpClient) -> None:
    task = await created(modern, "offered", text="hello")
    assert (task["resultType"], task["status"]) == ("task", "working")
    found = (await modern.ask("tasks/get", {"taskId": task["taskId"]})).result
    assert found["taskId"] == task["taskId"]
    done = await seen(modern, task["taskId"], "completed", "failed")
    assert done["result"]["content"] == [{"type": "text", "text": "hello"}]
    assert RELATED not in done["result"].get("_meta", {})
    assert done["createdAt"] == task["createdAt"]


@pytest.mark.requirement("TE-5")
async def test_extension_ends_by_a_tools_error_as_completed_and_by_the_protocols_as_failed(
    server: ServerProcess, modern: HttpMcpClient
) -> None:
    done = await seen(modern, (await created(modern, "fails"))["taskId"], "completed", "failed")
    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    assert done["result"]["content"] == [{"type": "text", "text": "no luck"}]
    async with http_mcp_client(server.origin, MODERN, {"extensions": {EXTENSION: {}}}) as without_roots:
        done = await seen(without_roots, (await created(without_roots, "lacks"))["taskId"], "completed", "failed")
    assert (done["status"], done["error"]["code"]) == ("failed", LACKING)
    assert done["statusMessage"] == done["error"]["message"]


@pytest.mark.requirement("TE-1", "TE-2", "TE-8")
async def test_extension_counts_for_the_request_that_declares_it_only(server: ServerProcess) -> None:
    async with http_mcp_client(server.origin, MODERN, TAKES_TASKS) as client:
        task = await created(client, "endless")
        client.capabilities = EVERY_FEATURE
        assert (await client.call("offered")).text == "done"
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            refused = await client.ask(method, {"taskId": task["taskId"], "inputResponses": {}})
            assert refused.code == LACKING
            assert refused.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        refused = await client.call("required")
        assert refused.code == LACKING
        assert refused.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        client.capabilities = TAKES_TASKS
        assert (await client.ask("tasks/cancel", {"taskId": task["taskId"]})).result["resultType"] == "complete"


@pytest.mark.requirement("TE-2")
async def test_extension_ignores_the_parameter_of_core_tasks(modern: HttpMcpClient) -> None:
    answer = await modern.ask("tools/call", {"name": "plain", "arguments": {}, "task": {"ttl": 1}})
    assert (answer.text, answer.result["resultType"]) == ("plain", "complete")


@pytest.mark.requirement("TE-8")
async def test_extension_has_none_of_the_methods_that_were_removed(modern: HttpMcpClient) -> None:
    for method in ("tasks/result", "tasks/list", "tasks/nothing"):
        assert await code_of(modern, method, taskId=UNKNOWN) == NO_METHOD


@pytest.mark.requirement("TE-8")
async def test_extension_unknown_task_and_bad_params_are_invalid(modern: HttpMcpClient) -> None:
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        assert await code_of(modern, method, taskId=UNKNOWN, inputResponses={}) == INVALID
    task = await created(modern, "asks")
    for wrong in (None, 5, ["first"]):
        assert await code_of(modern, "tasks/update", taskId=task["taskId"], inputResponses=wrong) == INVALID
    body, _ = modern_request("tasks/get", {"taskId": 5}, meta=modern_meta(TAKES_TASKS))
    reply = await modern.http.send(body, {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tasks/get"})
    assert reply.answer["error"]["code"] == INVALID


@pytest.mark.requirement("TE-9")
async def test_extension_name_header_must_be_the_task_id(modern: HttpMcpClient) -> None:
    task = await created(modern, "endless")
    body, headers = modern_request("tasks/get", {"taskId": task["taskId"]}, meta=modern_meta(TAKES_TASKS))
    assert headers["Mcp-Name"] == task["taskId"]
    assert (await modern.http.send(body, headers)).result["status"] == "working"
    for wrong in ({"Mcp-Name": UNKNOWN}, {"Mcp-Name": None}):
        changed = {key: value for key, value in {**headers, **wrong}.items() if value is not None}
        reply = await modern.http.send(body, changed)
        assert (reply.status, reply.answer["error"]["code"]) == (400, MISMATCH)


@pytest.mark.requirement("TE-4", "TE-6", "TE-7")
async def test_extension_questions_are_answered_by_updates(modern: HttpMcpClient) -> None:
    task_id = (await created(modern, "asks"))["taskId"]
    asked = await seen(modern, task_id, "input_required")
    assert list(asked["inputRequests"]) == ["first"]
    assert asked["inputRequests"]["first"]["params"]["message"] == "First name?"
    acknowledged = await modern.ask("tasks/update", {"taskId": task_id, "inputResponses": {"other": ADA}})
    assert acknowledged.result["resultType"] == "complete"
    wrong: Message = {"action": "accept", "content": {"name": 5}}
    assert await code_of(modern, "tasks/update", taskId=task_id, inputResponses={"first": wrong}) == INVALID
    assert await code_of(modern, "tasks/update", taskId=task_id, inputResponses={"first": "Ada"}) == INVALID
    await modern.ask("tasks/update", {"taskId": task_id, "inputResponses": {"first": ADA}})
    found = (await modern.ask("tasks/get", {"taskId": task_id})).result
    assert "first" not in found.get("inputRequests", {}), "it is answered at the very next look"
    await seen(modern, task_id, "input_required")
    await modern.ask("tasks/update", {"taskId": task_id, "inputResponses": {"first": ADA, "last": ADA}})
    done = await seen(modern, task_id, "completed")
    assert done["result"]["content"][0]["text"] == "Hello, Ada Ada!"


@pytest.mark.requirement("TE-6")
async def test_extension_cancel_is_acknowledged_also_after_the_end(modern: HttpMcpClient) -> None:
    task_id = (await created(modern, "endless"))["taskId"]
    await modern.ask("tasks/cancel", {"taskId": task_id})
    ended = (await modern.ask("tasks/get", {"taskId": task_id})).result
    assert ended["status"] == "cancelled"
    again = (await modern.ask("tasks/cancel", {"taskId": task_id})).result
    assert {key for key in again if key != "_meta"} == {"resultType"}
    assert (await modern.ask("tasks/get", {"taskId": task_id})).result == ended


async def test_extension_progress_becomes_the_status_message(modern: HttpMcpClient) -> None:
    task_id = (await created(modern, "endless"))["taskId"]
    async with asyncio.timeout(patience()):
        while "statusMessage" not in (found := await seen(modern, task_id, "working")):
            pass
    assert found["statusMessage"] == "half done"
    await modern.ask("tasks/cancel", {"taskId": task_id})


# --- notifications/tasks ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(client: HttpMcpClient, ids: Json, capabilities: Message = TAKES_TASKS) -> AsyncGenerator[Message]:
    """The acknowledgement of a listen stream, and its further messages in a queue."""
    wanted: Message = {"notifications": {"taskIds": ids}}
    body, headers = modern_request("subscriptions/listen", wanted, id="feed", meta=modern_meta(capabilities))
    async with client.http.open(body, headers) as stream:
        first = await stream.message()
        judge.check(first, MODERN, "subscriptions/listen")
        yield {"first": first["params"], "stream": stream}


@pytest.mark.requirement("TE-10")
async def test_notifications_tell_each_state_once_in_order_as_tasks_get_does(modern: HttpMcpClient) -> None:
    task_id = (await created(modern, "asks"))["taskId"]
    await seen(modern, task_id, "input_required")
    async with listening(modern, [task_id, UNKNOWN]) as heard:
        assert heard["first"]["notifications"] == {"taskIds": [task_id]}, "only what is there, and the caller's own"
        states: list[tuple[str, list[str]]] = []
        for key in ("first", "last"):
            await seen(modern, task_id, "input_required")
            await modern.ask("tasks/update", {"taskId": task_id, "inputResponses": {key: ADA}})
            while True:
                message = await heard["stream"].message()
                assert judge.check(message, MODERN) == "TasksNotification"
                params = message["params"]
                assert params.pop("_meta") == {SUBSCRIPTION_KEY: "feed"}
                states.append((params["status"], list(params.get("inputRequests", {}))))
                if params["status"] != "working":
                    break
        assert states == [("working", []), ("input_required", ["last"]), ("working", []), ("completed", [])]
        got = (await modern.ask("tasks/get", {"taskId": task_id})).result
        assert {**params, "resultType": "complete", "_meta": got["_meta"]} == got


@pytest.mark.requirement("TE-10", "SB-5")
async def test_notifications_of_tasks_need_the_extension_and_ids(modern: HttpMcpClient) -> None:
    for ids, capabilities, code in (
        ([UNKNOWN], EVERY_FEATURE, LACKING),
        ("one", TAKES_TASKS, INVALID),
        ([5], TAKES_TASKS, INVALID),
        ([str(number) for number in range(1_001)], TAKES_TASKS, INVALID),
    ):
        body, headers = modern_request(
            "subscriptions/listen", {"notifications": {"taskIds": ids}}, meta=modern_meta(capabilities)
        )
        assert (await modern.http.send(body, headers)).answer["error"]["code"] == code


# --- the core tasks of 2025-11-25 -------------------------------------------------------------------------------------


@pytest.mark.requirement("TA-3", "TA-4")
async def test_core_task_is_created_where_the_client_asks_for_it(core: HttpMcpClient) -> None:
    answer = await core.ask("tools/call", {"name": "offered", "arguments": {}, "task": {"ttl": 60_000}})
    task = answer.result["task"]
    assert (task["status"], task["ttl"]) == ("working", 60_000)
    assert (await core.call("offered")).text == "done", "without the parameter it is answered in line"
    payload = (await core.ask("tasks/result", {"taskId": task["taskId"]})).result
    assert payload["content"] == [{"type": "text", "text": "done"}]
    assert payload["_meta"][RELATED] == {"taskId": task["taskId"]}
    assert (await core.ask("tasks/get", {"taskId": task["taskId"]})).result["status"] == "completed"


async def test_core_task_asked_for_with_a_wrong_parameter_is_invalid(core: HttpMcpClient) -> None:
    wrong: Json
    for wrong in (5, [], {"ttl": "long"}, {"ttl": 0}, {"ttl": True}):
        params: Message = {"name": "offered", "arguments": {}, "task": wrong}
        assert (await core.ask("tools/call", params)).code == INVALID


@pytest.mark.requirement("TA-2")
async def test_core_task_support_is_enforced(core: HttpMcpClient) -> None:
    assert (await core.ask("tools/call", {"name": "plain", "arguments": {}, "task": {}})).code == NO_METHOD
    assert (await core.call("required")).code == NO_METHOD
    task = await created(core, "required")
    assert (await core.ask("tasks/result", {"taskId": task["taskId"]})).text == "required"


async def test_core_task_that_was_refused_before_it_ran_is_no_task(core: HttpMcpClient) -> None:
    answer = await core.ask("tools/call", {"name": "offered", "arguments": {"text": 5}, "task": {}})
    assert answer.is_error
    assert (await core.ask("tools/call", {"name": "nothing", "arguments": {}, "task": {}})).code == INVALID


@pytest.mark.requirement("TA-4", "TA-7")
async def test_core_task_of_a_tools_error_is_failed(core: HttpMcpClient) -> None:
    task_id = (await created(core, "fails"))["taskId"]
    payload = await core.ask("tasks/result", {"taskId": task_id})
    assert (payload.is_error, payload.text) == (True, "no luck")
    assert (await core.ask("tasks/get", {"taskId": task_id})).result["status"] == "failed"


@pytest.mark.requirement("TA-5", "TA-7")
async def test_core_task_is_cancelled_before_the_answer_and_once(core: HttpMcpClient) -> None:
    task_id = (await created(core, "endless"))["taskId"]
    assert (await core.ask("tasks/cancel", {"taskId": task_id})).result["status"] == "cancelled"
    assert await code_of(core, "tasks/cancel", taskId=task_id) == INVALID
    ended = await core.ask("tasks/result", {"taskId": task_id})
    assert "cancelled" in ended.text


@pytest.mark.requirement("TA-6", "TA-9")
async def test_core_tasks_are_listed_and_unknown_ones_are_invalid(core: HttpMcpClient) -> None:
    mine = {(await created(core, "endless"))["taskId"] for _ in range(3)}
    listed: set[str] = set()
    params: Message = {}
    while True:
        page = (await core.ask("tasks/list", params)).result
        listed |= {task["taskId"] for task in page["tasks"]}
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert mine <= listed
    assert await code_of(core, "tasks/list", cursor="zzz") == INVALID
    for task_id in mine:
        await core.ask("tasks/cancel", {"taskId": task_id})
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert await code_of(core, method, taskId=UNKNOWN) == INVALID
    assert await code_of(core, "tasks/update", taskId=UNKNOWN) == NO_METHOD


@pytest.mark.requirement("TA-8")
async def test_core_task_asks_on_the_stream_of_its_result(core: HttpMcpClient) -> None:
    task_id = (await created(core, "asks"))["taskId"]
    assert (await seen(core, task_id, "input_required"))["taskId"] == task_id
    payload = await core.ask("tasks/result", {"taskId": task_id}, respond=lambda _: ADA)
    assert payload.text == "Hello, Ada Ada!"
    assert [question["params"]["_meta"][RELATED] for question in payload.questions] == [{"taskId": task_id}] * 2


@pytest.mark.requirement("TA-8")
async def test_core_task_whose_client_cannot_answer_hears_a_cancelled_form(core: HttpMcpClient) -> None:
    task_id = (await created(core, "asks"))["taskId"]
    refusal: Message = {"error": {"code": -32603, "message": "nobody is there"}}
    payload = await core.ask("tasks/result", {"taskId": task_id}, respond=lambda _: refusal)
    assert payload.text == "cancel, cancel"


# --- both, and neither ------------------------------------------------------------------------------------------------


async def test_task_made_in_one_revision_is_read_in_another(core: HttpMcpClient, modern: HttpMcpClient) -> None:
    task = await created(core, "asks")
    await seen(modern, task["taskId"], "input_required")
    for key in ("first", "last"):
        await seen(modern, task["taskId"], "input_required")
        await modern.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": {key: ADA}})
    done = await seen(modern, task["taskId"], "completed")
    assert done["result"]["content"][0]["text"] == "Hello, Ada Ada!"
    payload: McpAnswer = await core.ask("tasks/result", {"taskId": task["taskId"]})
    assert payload.text == "Hello, Ada Ada!"


@pytest.mark.requirement("TA-1")
async def test_oldest_revision_has_no_tasks(server: ServerProcess) -> None:
    async with http_mcp_client(server.origin, OLDEST) as client:
        assert (await client.ask("tools/call", {"name": "offered", "arguments": {}, "task": {}})).text == "done"
        for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"):
            assert await code_of(client, method, taskId=UNKNOWN) == NO_METHOD
        refused = await client.call("required")
        assert (refused.is_error, refused.text) == (True, "this tool needs a client that supports tasks")


@pytest.mark.parametrize("revision", [CORE, MODERN])
async def test_tasks_over_stdio(revision: str) -> None:
    async with own_pipes(TOOLS) as pipes:
        client = await stdio_mcp_client(pipes, revision, TAKES_TASKS if revision == MODERN else EVERY_FEATURE)
        task = await created(client, "offered", text="over pipes")
        await seen(client, task["taskId"], "completed")
        if revision == CORE:
            assert (await client.ask("tasks/result", {"taskId": task["taskId"]})).text == "over pipes"
        cancelled = await created(client, "endless")
        await client.ask("tasks/cancel", {"taskId": cancelled["taskId"]})
        await seen(client, cancelled["taskId"], "cancelled")


async def test_once_is_remembered_between_the_rounds_of_a_call_in_line(server: ServerProcess) -> None:
    async with http_mcp_client(server.origin, MODERN) as client:
        first = await client.call("remembers", respond=lambda _: ADA)
        second = await client.call("remembers", respond=lambda _: ADA)
        assert int(second.text) == int(first.text) + 1, "each call counted once, though it ran twice"
        refused = await client.call("remembers", {"size": 40_000}, respond=lambda _: ADA)
        assert refused.is_error
        assert refused.text.startswith("results of ctx.once may have 32768 bytes together in line")
