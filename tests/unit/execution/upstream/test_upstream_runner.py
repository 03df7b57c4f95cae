"""A call at an upstream: what is sent, what comes back, and when it is sent again."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.servers.scripted_upstream import (
    ScriptedSession,
    ScriptedUpstream,
    count,
    failing,
    forever,
    returning,
    text_result,
)
from tests.unit.builders import RecordingLink
from tests.unit.execution.upstream.harness import (
    ADA,
    BOB,
    ModernRequest,
    UpstreamHarness,
    until,
    upstream_of,
    upstream_tool,
)
from toolhall.execution.client_link import ThrottledLink
from toolhall.execution.upstream.credentials import NoUpstreamCredentials
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    NotSent,
    RateLimited,
    RequestLost,
    ResponseTooLarge,
    RpcError,
    SessionExpired,
    Unauthorized,
)
from toolhall.model.content import Message, Reply, Resource, Text, TextOnlyReply
from toolhall.model.errors import BadOutput, NeedsRequirement, ToolFailed, Unavailable, Unsupported
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, ProgressEvent
from toolhall.model.requirements import ResolvedCredentials
from toolhall.model.secret import Secret
from toolhall.model.tool import Output, PromptInfo, ResourceInfo
from toolhall.model.upstream import Upstream


def server_with(revision: str = "2025-11-25", **tools: Any) -> ScriptedUpstream:
    server = ScriptedUpstream(revision)
    server.tools.update(tools)
    return server


# --- what is sent, and what comes back --------------------------------------------------------------------------------


async def test_call_is_sent_with_the_arguments_as_they_were_encoded() -> None:
    server = server_with(work=returning("done"))
    harness = UpstreamHarness(server)
    reply = await harness.call("work", {"a": 1}, encoded_arguments=b'{"a": 1}')
    assert reply == Reply((Text("done"),))
    (sent,) = server.requests
    assert (sent.method, sent.name, sent.params) == ("tools/call", "work", {"name": "work"})
    assert sent.encoded_arguments == b'{"a": 1}'
    assert sent.meta == {"dev.toolhall/hops": ["hall-1"]}
    assert sent.credentials == ()
    assert harness.servers_noted == ["Docs"]


async def test_tool_is_called_by_the_name_that_its_upstream_gave_it() -> None:
    server = server_with()
    server.tools["odd name"] = returning("done")
    assert await UpstreamHarness(server).text("odd", tool=upstream_tool("odd", upstream_name="odd name")) == "done"


async def test_value_of_a_tool_is_its_structured_content() -> None:
    server = server_with(work=returning("text", structuredContent={"n": 1}, _meta={"a": 1, "dev.toolhall/level": 0}))
    assert await UpstreamHarness(server).call() == Reply((Text("text"),), {"n": 1}, {"a": 1})


async def test_error_of_a_tool_keeps_its_content_and_is_not_checked() -> None:
    server = server_with(work=returning("no such city", isError=True, structuredContent={"bad": True}))
    tool = upstream_tool(output=Output("schema", {"type": "object", "required": ["n"]}))
    reply = await UpstreamHarness(server).call(tool=tool)
    assert reply == Reply((Text("no such city"),), is_error=True)


async def test_value_that_breaks_the_schema_is_left_out_where_the_upstream_is_lenient() -> None:
    server = server_with(work=returning("text", structuredContent={"n": "one"}))
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    reply = await UpstreamHarness(server, lenient=True).call(tool=upstream_tool(output=Output("schema", schema)))
    assert type(reply) is TextOnlyReply
    assert reply.content == (Text("text"),)
    assert reply.value is msgspec.UNSET


async def test_unreadable_result_is_bad_output() -> None:
    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        return {"content": "no list"}

    with pytest.raises(BadOutput):
        await UpstreamHarness(server_with(work=answer)).call()


async def test_resource_is_read_by_the_uri_of_its_upstream() -> None:
    server = ScriptedUpstream()
    server.methods["resources/read"] = _contents
    info = ResourceInfo(uri="docs://Docs/{path}")
    tool = upstream_tool(resource=info, upstream_name="docs:///{path}")
    read = await UpstreamHarness(server).call(
        tool=tool, arguments={"path": "a b"}, kind="resource", requested_name="docs://Docs/a%20b"
    )
    assert server.requests[0].params == {"uri": "docs:///a%20b"}
    assert read == [Resource(uri="docs://Docs/a%20b", content="text of it")]


async def _contents(session: ScriptedSession, request: McpRequest) -> JsonObject:
    return {"contents": [{"uri": request.params["uri"], "text": "text of it"}]}


async def test_resource_that_the_upstream_does_not_know_is_none() -> None:
    server = ScriptedUpstream()
    server.methods["resources/read"] = failing(RpcError(-32002, "not found"))
    tool = upstream_tool(resource=ResourceInfo(uri="docs:///a"), upstream_name="docs:///a")
    assert await UpstreamHarness(server).call(tool=tool, kind="resource", requested_name="docs:///a") is None


async def test_prompt_returns_its_messages() -> None:
    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        assert request.params == {"name": "greet", "arguments": {"name": "Ada"}}
        return {"messages": [{"role": "user", "content": {"type": "text", "text": "Greet Ada"}}]}

    server = ScriptedUpstream()
    server.methods["prompts/get"] = answer
    tool = upstream_tool("greet", prompt=PromptInfo())
    assert await UpstreamHarness(server).call(tool=tool, arguments={"name": "Ada"}, kind="prompt") == [
        Message.user("Greet Ada")
    ]


async def test_completion_asks_the_upstream_by_its_own_name() -> None:
    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        assert request.params["ref"] == {"type": "ref/prompt", "name": "greet"}
        assert request.params["context"] == {"arguments": {"style": "warm"}}
        return {"completion": {"values": [request.params["argument"]["value"] + "da"]}}

    server = ScriptedUpstream()
    server.methods["completion/complete"] = answer
    harness = UpstreamHarness(server)
    call = Call("call-1", "greet", {}, ADA, RecordingLink(), "test", 2, 1_000.0, kind="prompt")
    tool = upstream_tool("greet", prompt=PromptInfo(completes=("name",)))
    given = {"typed": "A", "given": {"style": "warm"}}
    completed = await harness.runner.completion_runner("name").run(tool, call, given, _Deadline())
    assert completed == ["Ada"]


class _Deadline:
    def hold(self) -> Any:
        raise AssertionError


async def test_progress_and_logs_reach_the_caller_while_the_call_runs() -> None:
    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        assert session.hooks is not None
        session.hooks.on_progress(ProgressEvent(1, 2, "half"))
        return text_result("done")

    link = RecordingLink()
    assert await UpstreamHarness(server_with(work=answer)).text(link=ThrottledLink(link)) == "done"
    assert link.events == [ProgressEvent(1, 2, "half")]


async def test_cancelled_call_is_cancelled_at_the_upstream() -> None:
    server = server_with(work=forever)
    harness = UpstreamHarness(server)
    task = asyncio.create_task(harness.call())
    await until(lambda: bool(server.calls))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.cancelled == ["work"]
    assert [session.running for session in server.opened] == [0]


# --- circles ----------------------------------------------------------------------------------------------------------


@pytest.mark.threat("E11")
async def test_call_that_went_through_this_hall_before_is_refused() -> None:
    server = server_with(work=returning("done"))
    with pytest.raises(ToolFailed, match="circle"):
        await UpstreamHarness(server).call(link=ModernRequest(hops=("hall-0", "hall-1")).link)
    assert not server.requests


@pytest.mark.threat("E11")
async def test_call_through_too_many_halls_is_refused() -> None:
    harness = UpstreamHarness(server_with(work=returning("done")))
    assert await harness.text(link=ModernRequest(hops=("a", "b", "c", "d")).link) == "done"
    assert harness.server.requests[0].meta == {"dev.toolhall/hops": ["a", "b", "c", "d", "hall-1"]}
    with pytest.raises(ToolFailed, match="more than 4 halls"):
        await harness.call(link=ModernRequest(hops=("a", "b", "c", "d", "e")).link)


# --- what is sent again -----------------------------------------------------------------------------------------------


async def test_call_that_was_not_sent_is_sent_again() -> None:
    harness = UpstreamHarness(server_with(work=failing(NotSent("no connection"))))
    assert await harness.text() == "ok"
    assert harness.runner.retried_calls == 1


async def test_upstream_that_is_not_there_makes_the_call_unavailable() -> None:
    server = server_with(work=returning("done"))
    server.refuses = [NotSent("connection refused")] * 10
    with pytest.raises(Unavailable, match=r"cannot be reached now; the call did not run: connection refused"):
        await UpstreamHarness(server).call()


async def test_refused_session_leads_to_one_handshake() -> None:
    server = server_with(work=failing(SessionExpired("no such session")), count=count)
    harness = UpstreamHarness(server)
    assert await harness.text() == "ok"
    assert len(server.opened) == 2
    assert len(server.open) == 1


async def test_session_that_is_refused_twice_ends_the_call() -> None:
    server = server_with(work=failing(*[SessionExpired("no such session")] * 2))
    with pytest.raises(Unavailable, match="refuses each new session"):
        await UpstreamHarness(server).call()


async def test_call_that_may_have_run_is_not_repeated() -> None:
    server = server_with(work=failing(RequestLost("the stream broke")))
    harness = UpstreamHarness(server)
    with pytest.raises(Unavailable, match="whether it had an effect is not known"):
        await harness.call()
    assert server.calls == ["work"]
    assert harness.manager.status("Docs").lost_calls == 1
    assert await harness.text() == "ok"  # in a new session
    assert len(server.opened) == 2


async def test_idempotent_call_is_repeated_once() -> None:
    server = server_with(work=failing(RequestLost("the stream broke")))
    assert await UpstreamHarness(server, idempotent=("Docs.*",)).text() == "ok"
    server = server_with(work=failing(*[RequestLost("the stream broke")] * 2))
    with pytest.raises(Unavailable):
        await UpstreamHarness(server, idempotent=("Docs.*",)).call()


async def test_idempotent_call_is_not_repeated_once_the_caller_has_heard_of_it() -> None:
    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        assert session.hooks is not None
        session.hooks.on_progress(ProgressEvent(1))
        raise RequestLost("the stream broke")

    server = server_with(work=answer)
    with pytest.raises(Unavailable):
        await UpstreamHarness(server, idempotent=("Docs.*",)).call(link=ThrottledLink(RecordingLink()))
    assert server.calls == ["work"]


async def test_limited_call_tells_when_to_try_again() -> None:
    with pytest.raises(Unavailable) as caught:
        await UpstreamHarness(server_with(work=failing(RateLimited("slow down", 7.0)))).call()
    assert caught.value.retry_after == 7.0


async def test_answer_that_is_too_large_is_bad_output() -> None:
    with pytest.raises(BadOutput):
        await UpstreamHarness(server_with(work=failing(ResponseTooLarge("17 MB")))).call()


async def test_error_of_the_protocol_is_the_tools_failure() -> None:
    with pytest.raises(ToolFailed, match="Docs: it broke"):
        await UpstreamHarness(server_with(work=failing(RpcError(-32603, "it broke")))).call()


async def test_missing_capability_is_unsupported() -> None:
    error = RpcError(-32021, "more", {"requiredCapabilities": {"sampling": {}}})
    with pytest.raises(Unsupported, match="sampling"):
        await UpstreamHarness(server_with("2026-07-28", work=failing(error))).call()


async def test_circuit_opens_after_five_failures() -> None:
    server = server_with(work=failing(*[RequestLost("the stream broke")] * 5))
    harness = UpstreamHarness(server)
    for _ in range(5):
        with pytest.raises(Unavailable):
            await harness.call()
    with pytest.raises(Unavailable, match="cannot be reached now: the stream broke") as caught:
        await harness.call()
    assert len(server.calls) == 5
    assert 1.0 <= (caught.value.retry_after or 0) <= 30.0
    assert harness.manager.status("Docs").state == "away"


async def test_circuit_opens_where_every_handshake_is_refused() -> None:
    server = server_with(work=returning("done"))
    server.refuses = [RpcError(-32601, "method not found")] * 20
    harness = UpstreamHarness(server)
    for _ in range(8):
        with pytest.raises(Unavailable):
            await harness.call()
    assert len(server.eras) == 5


# --- credentials ------------------------------------------------------------------------------------------------------


class TokenCredentials(NoUpstreamCredentials):
    """A token that can be renewed so many times."""

    def __init__(self, renewals: int) -> None:
        self.renewals = renewals
        self.number = 1

    async def headers(self, upstream: Upstream, call: Call | None) -> Headers:
        return (("Authorization", f"Bearer token-{self.number}"),)

    async def refresh(self, upstream: Upstream, call: Call | None, challenge: str | None) -> bool:
        assert challenge == "Bearer"
        self.number += 1
        return self.number <= self.renewals + 1


UNAUTHORIZED = Unauthorized("the token has expired", 401, "Bearer")


async def test_token_is_renewed_once() -> None:
    server = server_with(work=failing(UNAUTHORIZED))
    assert await UpstreamHarness(server, TokenCredentials(1)).text() == "ok"
    assert [dict(each.credentials)["Authorization"] for each in server.requests] == ["Bearer token-1", "Bearer token-2"]


async def test_renewed_token_is_redacted_from_what_comes_back() -> None:
    class Renewing(TokenCredentials):
        async def headers(self, upstream: Upstream, call: Call | None) -> Headers:
            return (("Authorization", f"Bearer {self._token.reveal()}"),)

        def secrets(self, upstream: Upstream, call: Call | None) -> tuple[Secret, ...]:
            return (self._token,) if self.number > 1 else ()

        @property
        def _token(self) -> Secret:
            return Secret(f"token-number-{self.number}")

    async def echo(session: ScriptedSession, request: McpRequest) -> JsonObject:
        sent = dict(request.credentials)["Authorization"]
        if sent.endswith("1"):
            raise UNAUTHORIZED
        assert session.hooks is not None
        session.hooks.on_progress(ProgressEvent(1, None, f"called with {sent}"))
        if request.name == "work":
            return text_result(f"you sent {sent}")
        raise RpcError(-32000, f"refused {sent}")

    link = RecordingLink()
    server = server_with(work=echo, fail=echo)
    assert "token-number" not in await UpstreamHarness(server, Renewing(1)).text(link=ThrottledLink(link))
    with pytest.raises(ToolFailed) as failed:
        await UpstreamHarness(server, Renewing(1)).text("fail")
    assert "token-number" not in failed.value.message
    assert link.events
    assert "token-number" not in repr(link.events)


@pytest.mark.parametrize("renewals", [0, 5])
async def test_token_that_stays_refused_is_a_missing_requirement(renewals: int) -> None:
    server = server_with(work=failing(*[UNAUTHORIZED] * 3))
    with pytest.raises(NeedsRequirement, match="Docs"):
        await UpstreamHarness(server, TokenCredentials(renewals)).call()
    assert len(server.calls) == min(renewals, 1) + 1


async def test_missing_scope_is_not_renewed() -> None:
    server = server_with(work=failing(Unauthorized("insufficient_scope", 403, "Bearer")))
    with pytest.raises(NeedsRequirement):
        await UpstreamHarness(server, TokenCredentials(5)).call()
    assert server.calls == ["work"]


async def test_credential_of_the_caller_never_goes_upstream() -> None:
    server = server_with(work=returning("done"))
    caller = msgspec.structs.replace(ADA, credential=Secret("canary-of-ada"))
    await UpstreamHarness(server).text(caller=caller)
    seen = repr([msgspec.structs.asdict(each) for each in server.requests]) + repr(server.opened[0].credentials)
    assert "canary" not in seen


@pytest.mark.threat("G16")
async def test_fixed_headers_are_redacted_from_what_comes_back() -> None:
    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        assert session.hooks is not None
        session.hooks.on_progress(ProgressEvent(1, None, "using hunter2-hunter2"))
        return text_result("the key is hunter2-hunter2")

    link = RecordingLink()
    harness = UpstreamHarness(server_with(work=answer), headers={"X-Key": "hunter2-hunter2"})
    assert "hunter2" not in await harness.text(link=ThrottledLink(link))
    (event,) = link.events
    assert isinstance(event, ProgressEvent)
    assert "hunter2" not in (event.message or "")


# --- whose session ----------------------------------------------------------------------------------------------------


@pytest.mark.threat("B30")
async def test_each_caller_has_a_session_of_its_own() -> None:
    harness = UpstreamHarness(server_with(count=count))
    assert [await harness.text("count", caller=each) for each in (ADA, ADA, BOB)] == ["1", "2", "1"]


async def test_session_of_the_hall_is_shared() -> None:
    harness = UpstreamHarness(server_with(count=count), share="hall")
    assert [await harness.text("count", caller=each) for each in (ADA, BOB)] == ["1", "2"]


async def test_command_is_shared_in_the_profile_local() -> None:
    harness = UpstreamHarness(server_with(count=count), local=True, command="server")
    assert [await harness.text("count", caller=each) for each in (ADA, BOB)] == ["1", "2"]


async def test_clients_of_one_caller_are_told_apart_where_the_upstream_wants_it() -> None:
    harness = UpstreamHarness(server_with(count=count), share="session")
    links = [RecordingLink(), RecordingLink()]
    for number, link in enumerate(links):
        link.client_session = number  # type: ignore[attr-defined]
    assert [await harness.text("count", link=ThrottledLink(each)) for each in (*links, links[0])] == ["1", "1", "2"]


async def test_modern_upstream_has_one_session_for_all() -> None:
    server = server_with("2026-07-28", work=returning("done"))
    harness = UpstreamHarness(server)
    for caller in (ADA, BOB, ADA):
        await harness.text(caller=caller)
    assert len(server.open) == 1


@pytest.mark.threat("B30")
async def test_shared_session_never_listens_with_the_account_of_a_caller() -> None:
    class Accounts(NoUpstreamCredentials):
        async def headers(self, upstream: Upstream, call: Call | None) -> Headers:
            user = "lent" if call is None else call.caller.id  # lent: somebody links an account at this moment
            return (("X-Hall", "1"), ("Authorization", f"Bearer token-of-{user}"))

    server = server_with("2026-07-28", work=returning("done"))
    await UpstreamHarness(server, credentials=Accounts(), auth="oauth").text()
    assert server.listening == [(("X-Hall", "1"),)]


@pytest.mark.threat("B30")
async def test_another_secret_is_another_session() -> None:
    harness = UpstreamHarness(server_with(count=count), share="hall")
    equipped = [ResolvedCredentials({"KEY": Secret(text)}) for text in ("secret-1", "secret-2")]
    assert [await harness.text("count", credentials=each) for each in equipped] == ["1", "1"]


async def test_longest_idle_session_makes_room_and_no_running_call_is_cut() -> None:
    server = server_with(work=forever, count=count)
    harness = UpstreamHarness(server, max_sessions=2)
    running = asyncio.create_task(harness.call("work", caller=BOB))
    await until(lambda: bool(server.calls))
    assert await harness.text("count", caller=ADA) == "1"
    third = msgspec.structs.replace(ADA, id="eve")
    assert await harness.text("count", caller=third) == "1"
    assert not running.done()
    assert [session.is_open for session in server.opened] == [True, False, True]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_caller_waits_for_a_session_while_all_are_in_use() -> None:
    gate = asyncio.Event()

    async def held(session: ScriptedSession, request: McpRequest) -> JsonObject:
        await gate.wait()
        return text_result("held")

    server = server_with(held=held, count=count)
    harness = UpstreamHarness(server, max_sessions=1)
    first = asyncio.create_task(harness.text("held", caller=ADA))
    await until(lambda: bool(server.calls))
    second = asyncio.create_task(harness.text("count", caller=BOB))
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(server.opened) == 1
    gate.set()
    assert await first == "held"
    assert await second == "1"


async def test_session_is_opened_once_for_all_who_wait() -> None:
    server = server_with(count=count)
    server.handshake_gate = asyncio.Event()
    harness = UpstreamHarness(server)
    calls = [asyncio.create_task(harness.text("count")) for _ in range(5)]
    for _ in range(10):
        await asyncio.sleep(0)
    calls[0].cancel()
    server.handshake_gate.set()
    assert sorted(await asyncio.gather(*calls[1:])) == ["1", "2", "3", "4"]
    assert len(server.opened) == 1


async def test_unknown_upstream_is_unavailable() -> None:
    harness = UpstreamHarness(server_with(work=returning("done")))
    harness.manager.configure({"Other": upstream_of("Other")})
    with pytest.raises(Unavailable, match="not set up any more"):
        await harness.call()
