"""`StatelessMcp`: MCP 2026-07-28, where every request stands alone and carries its own metadata."""

import logging
from collections.abc import Callable, Mapping

import msgspec

from toolhall.dialects.mcp.protocol import (
    REVISION_2026_07_28,
    JsonRpcRequest,
    McpRefusal,
    PlainCall,
)
from toolhall.dialects.mcp.requests import CALL_METHODS, RequestMeta, error_kind, read_call, read_list
from toolhall.dialects.mcp.responses import LIST_MEMBERS, McpEncoder, ServerInfo
from toolhall.mcp.request_state import RequestState
from toolhall.mcp.response import StatelessLink, as_url_elicitations
from toolhall.mcp.skill_requests import SKILL_METHODS, SKILLS_EXTENSION, answer_skills
from toolhall.mcp.stateless_tasks import StatelessTasks
from toolhall.mcp.subscriptions import Subscriptions
from toolhall.mcp.tool_requests import (
    answer_completion,
    check_served,
    join_trace,
    list_page,
    refresh_files,
    refuse_call,
    resolve_call,
)
from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, Limited, Malformed, ToolhallError, Unsupported
from toolhall.model.json import JsonObject
from toolhall.model.messages import (
    NOT_FRESH,
    Answer,
    CallTool,
    CompletedCall,
    InputRequired,
    TaskView,
    WireResponse,
)
from toolhall.pipeline.dispatcher import Dispatcher

LISTEN_METHOD = "subscriptions/listen"
# How clients may come by the tokens of issuers: by credentials of their own, or by the identity at a company.
AUTHORIZATION_EXTENSIONS: JsonObject = {
    "io.modelcontextprotocol/oauth-client-credentials": {},
    "io.modelcontextprotocol/enterprise-managed-authorization": {},
}
_log = logging.getLogger("toolhall.mcp")
_DIALECT = f"mcp@{REVISION_2026_07_28.name}"


class StatelessMcp:
    """Answers requests of MCP 2026-07-28; keeps nothing between them."""

    def __init__(
        self, dispatcher: Dispatcher, server: ServerInfo, request_state: RequestState, *, takes_tokens: bool = False
    ) -> None:
        self._dispatcher = dispatcher
        self._extensions = AUTHORIZATION_EXTENSIONS if takes_tokens else {}
        self._request_state = request_state
        self.encoder = McpEncoder(server, REVISION_2026_07_28)
        self.subscriptions = Subscriptions(dispatcher, self.encoder)
        self.tasks = StatelessTasks(dispatcher, self.encoder)

    async def answer(
        self,
        request: JsonRpcRequest,
        meta: RequestMeta,
        caller: Caller,
        link: StatelessLink,
        size: int,
        on_suspend: Callable[[], None] | None = None,
    ) -> WireResponse:
        """Return the response to a request other than `subscriptions/listen`.

        `on_suspend` is called when a tool first has to wait.
        """
        try:
            check_served(self._dispatcher, request.method)
            if request.method in CALL_METHODS:
                return await self._answer_call(request, meta, caller, link, size, on_suspend)
            return await self._answer_beside_calls(request, meta, caller)
        except ToolhallError as error:
            return self.encoder.error(request.id, error, error_kind(request.method))
        except Exception:  # noqa: BLE001 - a tool can return what cannot be encoded; the client still gets a response
            _log.exception("the answer to %s could not be written", request.method)
            return self.encoder.error(request.id, Broken())

    async def _answer_beside_calls(self, request: JsonRpcRequest, meta: RequestMeta, caller: Caller) -> WireResponse:
        if request.method in LIST_MEMBERS:
            params = read_list(request)
            await refresh_files(self._dispatcher, params, request.method)
            page = list_page(self._dispatcher, caller, params, request.method)
            return self.encoder.list_result(request.id, page, request.method)
        if request.method in SKILL_METHODS:
            return await answer_skills(self._dispatcher, self.encoder, request, caller)
        match request.method:
            case "completion/complete":
                return await answer_completion(self._dispatcher, self.encoder, request, caller)
            case "server/discover":
                snapshot = self._dispatcher.registry.snapshot
                skills = SKILLS_EXTENSION if snapshot.resources.has_skills else {}
                extensions = {**self.tasks.extensions, **skills, **self._extensions}
                return self.encoder.discover_result(request.id, snapshot.kinds, extensions)
            case _:
                return await self.tasks.answer(request, meta, caller)

    async def _answer_call(
        self,
        request: JsonRpcRequest,
        meta: RequestMeta,
        caller: Caller,
        link: StatelessLink,
        size: int,
        on_suspend: Callable[[], None] | None,
    ) -> WireResponse:
        """Return the response to a call, a read or a prompt."""
        if "traceparent" in request.params["_meta"]:  # it holds the request metadata, so it is an object
            join_trace(request)
        call = self._call(request, caller, link, size)
        if "requestState" in request.params:
            call = await self._consume_state(request, call, caller)
        if meta.takes_tasks and self.tasks.offers(call):
            answer = await self.tasks.start(call, caller, link, on_suspend)
            if isinstance(answer, TaskView):
                return self.tasks.created(request.id, answer)
        else:
            answer = await self._dispatcher.answer(call, caller, link, on_suspend)
        shown = as_url_elicitations(answer, meta, link.replies)
        if "requestState" in request.params:
            if _can_resend_state(call, answer, link):
                await self._request_state.release(request)
            elif isinstance(shown, ToolhallError):
                self._request_state.on_refused(link.results)
        try:
            return self._response(request, call, caller, shown, link.results)
        except McpRefusal:  # too many rounds
            self._request_state.on_refused(link.results)
            raise

    async def answer_plain(
        self,
        plain: PlainCall,
        meta: RequestMeta,
        caller: Caller,
        link: StatelessLink,
        size: int,
        on_suspend: Callable[[], None] | None = None,
    ) -> WireResponse:
        """Return the response to a plain call, which holds neither replies nor a request state."""
        call = CallTool(
            plain.name, plain.arguments, _DIALECT, size, None, None, None, plain.encoded_arguments, plain.kind
        )
        if meta.takes_tasks and self.tasks.offers(call):
            return await self.answer(plain.to_request(), meta, caller, link, size, on_suspend)
        answer = await self._dispatcher.answer(call, caller, link, on_suspend)
        try:
            if type(answer) is CompletedCall:
                if plain.kind != "tool":
                    return self.encoder.result(plain.id, answer, self._dispatcher.freshness(answer.tool))
                return self.encoder.call_result(plain.id, answer)
            asked = as_url_elicitations(answer, meta)
            return self._response(plain.to_request(), call, caller, asked, link.results)
        except Exception:  # noqa: BLE001 - a tool can return what cannot be encoded; the client still gets a response
            _log.exception("the answer to tools/call could not be written")
            return self.encoder.error(plain.id, Broken())

    def _call(self, request: JsonRpcRequest, caller: Caller, link: StatelessLink, size: int) -> CallTool:
        """Parse the call of a request; the link gets the replies that came with it."""
        try:
            call = read_call(request, _DIALECT, size)
            if self._dispatcher.shortlist.pins:
                call = resolve_call(self._dispatcher, call)
            if "requestState" in request.params or "inputResponses" in request.params:
                link.replies = self._request_state.replies(request, call, caller)
                link.results = self._request_state.results(request, call, caller)
        except Malformed as error:
            raise refuse_call(self._dispatcher, request, caller, size, error, _DIALECT) from None
        return call

    async def _consume_state(self, request: JsonRpcRequest, call: CallTool, caller: Caller) -> CallTool:
        """Use up the request state, and return the call with the consent that the state holds."""
        try:
            consent = await self._request_state.consume(request, call, caller)
        except ToolhallError as error:
            raise refuse_call(self._dispatcher, request, caller, call.size, error, _DIALECT) from None
        return call if consent is None else msgspec.structs.replace(call, consent=consent)

    def _response(
        self,
        request: JsonRpcRequest,
        call: CallTool,
        caller: Caller,
        answer: Answer,
        results: Mapping[str, bytes],
    ) -> WireResponse:
        match answer:
            case CompletedCall():
                # What was read after questions is not to be kept.
                asked = "inputResponses" in request.params or "requestState" in request.params
                freshness = NOT_FRESH if asked else self._dispatcher.freshness(answer.tool)
                return self.encoder.result(request.id, answer, freshness)
            case InputRequired(questions, consent):  # also URLs to open before the call is repeated
                state = self._request_state.seal_next(request, call, caller, list(questions), consent, results)
                return self.encoder.input_required(request.id, answer, state)
            case ToolhallError():
                return self.encoder.error(request.id, answer, call.kind)
            case _:
                raise TypeError("a call is not answered by a list")


def _can_resend_state(call: CallTool, answer: Answer, link: StatelessLink) -> bool:
    """Whether the client may send a consumed state again: the tool did not run, or a reply was invalid.

    The latter never after a person's consent: what the tool does before its question would happen again under it. A
    tool can raise any error, so only what the pipeline and the link know counts, never the type of the error alone.
    """
    if isinstance(answer, Limited):
        return not answer.reached_tool
    return call.consent is None and isinstance(answer, McpRefusal | Unsupported) and answer is link.refusal
