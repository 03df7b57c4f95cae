"""Tools that ask: requests of the server's own in the older revisions, rounds with a sealed state in the newest."""

from collections.abc import Callable

import pytest

from tests.harness.http_client import Json, Message, Response
from tests.harness.mcp_client import EVERY_FEATURE, HttpMcpClient, McpClient, StatelessMcpClient, http_mcp_client
from tests.harness.mcp_messages import LEGACY, MODERN, modern_meta
from tests.harness.server_process import ServerProcess
from toolhall.dialects.mcp.protocol import JsonRpcRequest, McpRefusal
from toolhall.mcp.request_state import MAX_ROUNDS, STATE_SECONDS, RequestState
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import CallTool
from toolhall.stores.crypto import KEY_BYTES, SealedBox

ACCEPT: Message = {"action": "accept", "content": {"name": "Ada"}}
SAID: Message = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m", "stopReason": "endTurn"}
FOLDERS: Message = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}
STALE = -32602


def always(reply: Message) -> Callable[[Message], Message]:
    """Give the same reply to every question."""
    return lambda question: reply


def by_method(question: Message) -> Message:
    """A fitting reply to any question."""
    return {"elicitation/create": ACCEPT, "sampling/createMessage": SAID, "roots/list": FOLDERS}[question["method"]]


# --- the same in every revision ---------------------------------------------------------------------------------------


@pytest.mark.requirement("L-36", "M-41", "M-22")
async def test_elicitation_accepted_answer_reaches_the_tool(talk: McpClient) -> None:
    heard = await talk.call("probe_ask", {"greeting": "Hi"}, respond=always(ACCEPT))
    assert heard.text == "Hi, Ada!"
    (question,) = heard.questions
    assert question["params"]["message"] == "Your name?"
    schema = question["params"]["requestedSchema"]
    assert (schema["type"], schema["properties"]) == ("object", {"name": {"type": "string"}})


@pytest.mark.requirement("L-36", "M-41")
async def test_elicitation_decline_and_cancel_reach_the_tool(talk: McpClient) -> None:
    for action in ("decline", "cancel"):
        assert (await talk.call("probe_ask", respond=always({"action": action}))).text == action


@pytest.mark.requirement("L-36", "M-41", "M-42")
async def test_elicitation_sampling_and_roots_requested_at_once_are_all_answered(talk: McpClient) -> None:
    heard = await talk.call("probe_ask_all", respond=by_method)
    assert heard.result["structuredContent" if talk.modern else "content"]
    methods = sorted(question["method"] for question in heard.questions)
    assert methods == ["elicitation/create", "roots/list", "sampling/createMessage"]
    sampling = next(each["params"] for each in heard.questions if each["method"] == "sampling/createMessage")
    assert (sampling["maxTokens"], sampling["systemPrompt"], sampling["stopSequences"]) == (10, "Be brief.", ["END"])


@pytest.mark.requirement("L-36", "M-41", "M-43")
async def test_elicitation_three_in_a_row_are_each_sent_once_and_all_answers_kept(talk: McpClient) -> None:
    names = iter(["Ada", "Grace", "Lin"])
    heard = await talk.call(
        "probe_ask_often", {"times": 3}, respond=lambda _: {"action": "accept", "content": {"name": next(names)}}
    )
    assert heard.text == "Ada, Grace, Lin", "every question was asked once, and every answer kept"
    assert len(heard.questions) == 3


@pytest.mark.requirement("L-36", "M-42", "M-45")
async def test_url_elicitation_is_sent_only_in_revisions_that_have_it(talk: McpClient) -> None:
    if talk.revision == "2025-06-18":
        heard = await talk.call("probe_visit")
        assert heard.result["isError"] is True, "pages came with 2025-11-25"
        return
    heard = await talk.call("probe_visit", respond=always({"action": "accept"}))
    assert heard.text == "agreed"
    (question,) = heard.questions
    assert (question["params"]["mode"], question["params"]["url"]) == ("url", "https://example.com/connect/1")
    assert "requestedSchema" not in question["params"]


@pytest.mark.requirement("M-4", "M-42", "L-36")
@pytest.mark.parametrize("declared", [{"elicitation": {"form": {}}}, {"elicitation": {}}])
async def test_url_elicitation_is_not_sent_to_a_client_with_form_capability_only(
    probe: ServerProcess, declared: Message
) -> None:
    for revision in (LEGACY[1], MODERN):
        async with http_mcp_client(probe.origin, revision, declared) as talk:
            assert (await talk.call("probe_ask", respond=always(ACCEPT))).text == "Hello, Ada!"
            heard = await talk.call("probe_visit")
            assert "error" in heard.message if talk.modern else heard.result["isError"]


@pytest.mark.requirement("M-44", "L-36")
async def test_elicitation_malformed_answer_is_refused(talk: McpClient) -> None:
    for malformed in (
        {"action": "perhaps"},
        {},
        {"action": "accept", "content": [1]},
        {"action": "accept", "content": {}},
    ):
        heard = await talk.call("probe_ask", respond=always(malformed))
        assert "error" in heard.message or heard.result["isError"] is True, malformed


# --- requests of the server's own, in the older revisions -------------------------------------------------------------


@pytest.mark.requirement("L-36")
async def test_elicitation_error_response_fails_the_call_without_its_message(session: HttpMcpClient) -> None:
    heard = await session.call("probe_ask", respond=always({"error": {"code": -32603, "message": "the screen is off"}}))
    assert heard.result["isError"] is True
    assert "screen" not in heard.text, "what the client said of itself is not the model's business"


@pytest.mark.requirement("L-15", "L-36")
async def test_elicitation_request_is_sent_on_the_stream_of_its_call(session: HttpMcpClient) -> None:
    async with session.http.open(None, session.headers, "GET") as listening:
        assert (await session.call("probe_ask", respond=always(ACCEPT))).text == "Hello, Ada!"
        assert await listening.silent()


@pytest.mark.requirement("L-19", "L-36")
async def test_elicitation_response_from_another_session_is_ignored(
    session: HttpMcpClient, probe: ServerProcess
) -> None:
    async with session.open(session.request("tools/call", {"name": "probe_ask"})) as reply:
        question = await reply.message()
        async with http_mcp_client(probe.origin, session.revision) as other:
            forged = {
                "jsonrpc": "2.0",
                "id": question["id"],
                "result": {"action": "accept", "content": {"name": "Eve"}},
            }
            assert (await other.http.send(forged, other.headers)).status == 202
        right = {"jsonrpc": "2.0", "id": question["id"], "result": ACCEPT}
        assert (await session.http.send(right, session.headers)).status == 202
        assert (await reply.message())["result"]["content"][0]["text"] == "Hello, Ada!"


@pytest.mark.requirement("J-3", "L-36")
async def test_elicitation_requests_of_one_session_have_unique_ids(session: HttpMcpClient) -> None:
    heard = await session.call("probe_ask_often", {"times": 4}, respond=always(ACCEPT))
    more = await session.call("probe_ask", respond=always(ACCEPT))
    ids = [question["id"] for question in heard.questions + more.questions]
    assert len(set(ids)) == 5


# --- rounds, in the newest revision -----------------------------------------------------------------------------------


async def ask(http: StatelessMcpClient, tool: str, arguments: Message | None = None, **more: Json) -> Response:
    """Call a tool that asks; `more` holds inputResponses and requestState."""
    capabilities = more.pop("capabilities", EVERY_FEATURE)
    params = {"name": tool, "arguments": arguments or {}, **more}
    return await http.modern("tools/call", params, meta=modern_meta(capabilities))


@pytest.mark.requirement("M-6", "M-7", "M-9", "M-41", "M-44", "M-47")
async def test_input_required_result_has_requests_and_state_and_no_caching_hint(http: StatelessMcpClient) -> None:
    reply = await ask(http, "probe_ask")
    assert reply.result["resultType"] == "input_required"
    assert list(reply.result["inputRequests"]) == ["name"]
    assert reply.result["inputRequests"]["name"]["method"] == "elicitation/create"
    assert isinstance(reply.result["requestState"], str)
    assert "ttlMs" not in reply.result
    assert "cacheScope" not in reply.result
    assert "content" not in reply.result
    assert len(reply.messages) == 1, "nothing is sent as a request"


@pytest.mark.requirement("M-41")
async def test_list_and_discover_with_input_responses_are_complete(http: StatelessMcpClient) -> None:
    for method in ("tools/list", "server/discover"):
        extra = {"inputResponses": {"name": ACCEPT}, "requestState": "nonsense"}
        assert (await http.modern(method, extra)).result["resultType"] == "complete"


@pytest.mark.requirement("M-4", "M-42", "RO-1", "SA-1", "EL-3")
@pytest.mark.parametrize(
    ("tool", "required"),
    [
        ("probe_ask", {"elicitation": {}}),
        ("probe_visit", {"elicitation": {"url": {}}}),
        ("probe_ask_all", {"elicitation": {}}),
    ],
)
async def test_input_required_missing_client_capability_is_named_in_the_error(
    http: StatelessMcpClient, tool: str, required: Message
) -> None:
    reply = await ask(http, tool, capabilities={})
    assert (reply.status, reply.error["code"]) == (400, -32021)
    assert reply.error["data"]["requiredCapabilities"] == required


@pytest.mark.requirement("M-4", "M-42")
async def test_input_required_uses_the_capabilities_of_the_current_request(http: StatelessMcpClient) -> None:
    first = await ask(http, "probe_ask")
    more = {"inputResponses": {"name": ACCEPT}, "requestState": first.result["requestState"]}
    assert (await ask(http, "probe_ask", capabilities={}, **more)).error["code"] == -32021
    assert (await ask(http, "probe_ask", **more)).result["content"][0]["text"] == "Hello, Ada!"


@pytest.mark.requirement("M-44")
async def test_input_responses_missing_one_is_requested_again_and_others_are_kept(http: StatelessMcpClient) -> None:
    first = await ask(http, "probe_ask_all")
    assert set(first.result["inputRequests"]) == {"person", "model", "client"}
    second = await ask(http, "probe_ask_all", inputResponses={"model": SAID}, requestState=first.result["requestState"])
    assert set(second.result["inputRequests"]) == {"person", "client"}
    third = await ask(
        http,
        "probe_ask_all",
        inputResponses={"person": ACCEPT, "client": FOLDERS},
        requestState=second.result["requestState"],
    )
    assert third.result["resultType"] == "complete"
    assert third.result["structuredContent"] == ["client: Rooted", "model: Sampled", "person: Filled"]


@pytest.mark.requirement("M-44")
async def test_input_responses_with_unrequested_keys_are_ignored(http: StatelessMcpClient) -> None:
    first = await ask(http, "probe_ask")
    answers = {"name": ACCEPT, "nobody": {"x": 1}, "other": 7}
    reply = await ask(http, "probe_ask", inputResponses=answers, requestState=first.result["requestState"])
    assert reply.result["content"][0]["text"] == "Hello, Ada!"
    first = await ask(http, "probe_ask")
    reply = await ask(http, "probe_ask", inputResponses={"nobody": ACCEPT}, requestState=first.result["requestState"])
    assert list(reply.result["inputRequests"]) == ["name"]


@pytest.mark.requirement("M-44")
async def test_input_responses_malformed_are_refused(http: StatelessMcpClient) -> None:
    state = {"requestState": (await ask(http, "probe_ask")).result["requestState"]}
    for malformed in ([ACCEPT], "text", 7, {"name": "Ada"}, {"name": [ACCEPT]}, {"name": {"action": "perhaps"}}):
        reply = await ask(http, "probe_ask", inputResponses=malformed, **state)
        assert reply.error["code"] == -32602, malformed
    assert (await ask(http, "probe_ask", **state)).result["resultType"] == "input_required", (
        "no answer at all is no mistake"
    )


@pytest.mark.requirement("M-44", "M-1")
async def test_input_responses_of_the_first_round_without_request_state_are_accepted(http: StatelessMcpClient) -> None:
    """There was no answer yet that such a state could have kept."""
    reply = await ask(http, "probe_ask", inputResponses={"name": ACCEPT, "nobody": 1})
    assert reply.result["content"][0]["text"] == "Hello, Ada!"


@pytest.mark.requirement("M-43")
async def test_request_state_tampered_is_refused(http: StatelessMcpClient) -> None:
    state: str = (await ask(http, "probe_ask")).result["requestState"]
    other: str = (await ask(http, "probe_ask")).result["requestState"]
    assert state != other
    middle = len(state) // 2
    flipped = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
    forged = [flipped, state[:-4], state + "AAAA", "", "nonsense", state[:middle] + other[middle:], "ünï", "A" * 10_000]
    for wrong in [*forged, 7, {"a": 1}, [state], True]:
        reply = await ask(http, "probe_ask", inputResponses={"name": ACCEPT}, requestState=wrong)
        assert reply.error["code"] == STALE, wrong
    assert (await ask(http, "probe_ask", inputResponses={"name": ACCEPT}, requestState=state)).result["content"]


@pytest.mark.requirement("M-43")
async def test_request_state_does_not_reveal_the_answers_it_carries(http: StatelessMcpClient) -> None:
    first = await ask(http, "probe_ask_often", {"times": 2})
    secret = {"action": "accept", "content": {"name": "Very Secret Name"}}
    second = await ask(
        http,
        "probe_ask_often",
        {"times": 2},
        inputResponses={"name0": secret},
        requestState=first.result["requestState"],
    )
    assert second.result["resultType"] == "input_required"
    assert "Secret" not in str(second.result)
    assert len({len(first.result["requestState"]), len(second.result["requestState"])}) == 2, "it carries the answer"


@pytest.mark.requirement("M-43")
async def test_request_state_with_another_tool_or_arguments_is_refused(http: StatelessMcpClient) -> None:
    state = (await ask(http, "probe_ask", {"greeting": "Hi"})).result["requestState"]
    answer = {"inputResponses": {"name": ACCEPT}, "requestState": state}
    for tool, arguments in (
        ("probe_ask", {"greeting": "Ho"}),
        ("probe_ask", {}),
        ("probe_impatient", {"greeting": "Hi"}),
    ):
        assert (await ask(http, tool, arguments, **answer)).error["code"] == STALE
    assert (await ask(http, "probe_ask", {"greeting": "Hi"}, **answer)).result["content"][0]["text"] == "Hi, Ada!"


@pytest.mark.requirement("M-43", "M-1")
async def test_request_state_on_another_connection_and_request_id_is_accepted(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, MODERN) as one, http_mcp_client(probe.origin, MODERN) as two:
        state = (await ask(one.http, "probe_ask")).result["requestState"]
        again = two.request(
            "tools/call",
            {"name": "probe_ask", "arguments": {}, "inputResponses": {"name": ACCEPT}, "requestState": state},
            id="other",
        )
        assert (await two.exchange(again)).text == "Hello, Ada!"


@pytest.mark.requirement("M-43")
async def test_request_state_with_reordered_arguments_is_accepted(http: StatelessMcpClient) -> None:
    state = (await ask(http, "probe_ask_often", {"times": 1})).result["requestState"]
    reply = await ask(http, "probe_ask_often", {"times": 1}, inputResponses={"name0": ACCEPT}, requestState=state)
    assert reply.result["content"][0]["text"] == "Ada"
    one, other = [RequestState(SealedBox(bytes(KEY_BYTES)), lambda: 0.0) for _ in range(2)]
    sealed = one.seal_next(
        JsonRpcRequest(1, "tools/call", {}), CallTool("t", {"a": 1, "b": {"c": 2, "d": 3}}, "mcp"), LOCAL, ["k"]
    )
    again = JsonRpcRequest(2, "tools/call", {"requestState": sealed, "inputResponses": {"k": 1}})
    assert other.replies(again, CallTool("t", {"b": {"d": 3, "c": 2}, "a": 1}, "mcp"), LOCAL) == {"k": 1}


@pytest.mark.requirement("M-44", "L-20")
async def test_input_required_rounds_above_the_maximum_are_refused(http: StatelessMcpClient) -> None:
    reply = await ask(http, "probe_ask_often", {"times": MAX_ROUNDS + 1})
    for number in range(MAX_ROUNDS):
        assert reply.result["resultType"] == "input_required", number
        more = {"inputResponses": {f"name{number}": ACCEPT}, "requestState": reply.result["requestState"]}
        reply = await ask(http, "probe_ask_often", {"times": MAX_ROUNDS + 1}, **more)
    assert reply.error["code"] == -32602
    assert str(MAX_ROUNDS) in reply.error["message"]


# --- the state by itself, with a clock and callers of the test's own --------------------------------------------------


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


CALL = CallTool("tool", {"a": 1}, "mcp@2026-07-28")


def first_request() -> JsonRpcRequest:
    """A call that brings no state."""
    return JsonRpcRequest(1, "tools/call", {"name": "tool"})


def next_request(state: str) -> JsonRpcRequest:
    """The same call with a state and an answer."""
    return JsonRpcRequest(2, "tools/call", {"name": "tool", "requestState": state, "inputResponses": {"k": {"x": 1}}})


@pytest.mark.requirement("M-43")
def test_request_state_older_than_its_lifetime_is_refused() -> None:
    clock = Clock()
    rounds = RequestState(SealedBox(bytes(KEY_BYTES)), clock)
    state = rounds.seal_next(first_request(), CALL, LOCAL, ["k"])
    clock.now += STATE_SECONDS - 1
    assert rounds.replies(next_request(state), CALL, LOCAL) == {"k": {"x": 1}}
    clock.now += 2
    with pytest.raises(McpRefusal, match="too old"):
        rounds.replies(next_request(state), CALL, LOCAL)


@pytest.mark.requirement("M-43")
def test_request_state_of_another_caller_is_refused() -> None:
    rounds = RequestState(SealedBox(bytes(KEY_BYTES)), Clock())
    state = rounds.seal_next(first_request(), CALL, Caller("ada"), ["k"])
    assert rounds.replies(next_request(state), CALL, Caller("ada"))
    with pytest.raises(McpRefusal):
        rounds.replies(next_request(state), CALL, Caller("eve"))


@pytest.mark.requirement("M-43")
def test_request_state_sealed_with_another_key_is_refused() -> None:
    clock = Clock()
    one, other = RequestState(SealedBox(bytes(KEY_BYTES)), clock), RequestState(SealedBox(b"k" * KEY_BYTES), clock)
    state = one.seal_next(first_request(), CALL, LOCAL, ["k"])
    with pytest.raises(McpRefusal):
        other.replies(next_request(state), CALL, LOCAL)
    assert RequestState(SealedBox(bytes(KEY_BYTES)), clock).replies(next_request(state), CALL, LOCAL), (
        "another process of the same hall"
    )


@pytest.mark.requirement("M-43")
def test_request_state_of_the_same_call_differs_every_time() -> None:
    rounds = RequestState(SealedBox(bytes(KEY_BYTES)), Clock())
    assert len({rounds.seal_next(first_request(), CALL, LOCAL, ["k"]) for _ in range(100)}) == 100
