"""MCP 2026-07-28: every request stands alone and brings its own terms."""

import logging

import msgspec

from toolhall.dialects.mcp.asks import read_call, read_list
from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import McpRefusal, unknown_method
from toolhall.dialects.mcp.revisions import MODERN
from toolhall.dialects.mcp.terms import Terms
from toolhall.dialects.mcp.write import Server, Writer
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, Limited, Malformed, ToolhallError, Unsupported
from toolhall.model.exchange import Answer, Asked, CallTool, Finished, Wire
from toolhall.transports.mcp.links import ModernLink, Outlet
from toolhall.transports.mcp.refusing import refused
from toolhall.transports.mcp.rounds import Rounds
from toolhall.transports.mcp.storefront import called, page
from toolhall.transports.mcp.subscriptions import Subscriptions
from toolhall.transports.mcp.tracing import join_trace
from toolhall.transports.mcp.verifying import verifiable

LISTEN = "subscriptions/listen"
_log = logging.getLogger("toolhall.mcp")
_DIALECT = f"mcp@{MODERN.name}"


class Modern:
    """Answers requests; remembers nothing between them."""

    def __init__(self, hall: Hall, server: Server, rounds: Rounds) -> None:
        self._hall = hall
        self._rounds = rounds
        self.writer = Writer(server, MODERN)
        self.subscriptions = Subscriptions(hall, self.writer)

    async def answer(self, request: Request, terms: Terms, caller: Caller, outlet: Outlet, size: int) -> Wire:
        """The one reply to a request other than `subscriptions/listen`."""
        try:
            if request.method == "tools/call":
                if "traceparent" in request.params["_meta"]:  # modern terms are in there, so it is an object
                    join_trace(request)
                link = ModernLink(outlet, terms, self.writer)
                call = self._call(request, caller, link, size)
                if "requestState" in request.params:
                    call = await self._continued(request, call, caller)
                answer = await self._hall.answer(call, caller, link)
                if type(answer) is Finished:  # the usual case
                    return self.writer.finished(request.id, answer)
                if "requestState" in request.params and _is_unused(call, answer, link):
                    await self._rounds.release(request)
                return self._written(request, call, caller, verifiable(answer, terms, link.replies))
            if request.method == "tools/list":
                return self.writer.page(request.id, page(self._hall, caller, read_list(request)))
            if request.method == "server/discover":
                return self.writer.discovered(request.id)
            raise unknown_method(request.method)
        except ToolhallError as error:
            return self.writer.error(request.id, error)
        except Exception:  # noqa: BLE001 - a tool can return what no dialect can write; its caller gets an answer still
            _log.exception("the answer to %s could not be written", request.method)
            return self.writer.error(request.id, Broken())

    def _call(self, request: Request, caller: Caller, link: ModernLink, size: int) -> CallTool:
        """The call that a request stands for; its link gets the replies that came along."""
        try:
            call = read_call(request, _DIALECT, size)
            if self._hall.shortlist.pins:
                call = called(self._hall, call)
            if "requestState" in request.params or "inputResponses" in request.params:
                link.replies = self._rounds.replies(request, call, caller)
        except Malformed as error:
            raise refused(self._hall, request, caller, size, error, _DIALECT) from None
        return call

    async def _continued(self, request: Request, call: CallTool, caller: Caller) -> CallTool:
        """The call with the consent that its state holds; the state is used up."""
        try:
            consent = await self._rounds.use(request, call, caller)
        except ToolhallError as error:
            raise refused(self._hall, request, caller, call.size, error, _DIALECT) from None
        return call if consent is None else msgspec.structs.replace(call, consent=consent)

    def _written(self, request: Request, call: CallTool, caller: Caller, answer: Answer) -> Wire:
        match answer:
            case Finished():
                return self.writer.finished(request.id, answer)
            case Asked(questions, consent):  # also a page to visit before the call is sent again
                state = self._rounds.next(request, call, caller, list(questions), consent)
                return self.writer.asked(request.id, answer, state)
            case ToolhallError():
                return self.writer.error(request.id, answer)
            case _:
                raise TypeError("a call is not answered by a list")


def _is_unused(call: CallTool, answer: Answer, link: ModernLink) -> bool:
    """Whether a state may be sent again: a limit ended the call before its tool ran, or the replies in it were none.

    The second never after a person's yes: what a tool does before its question would happen again under it. A tool can
    raise any error, so only what the pipeline and the link know counts, never the error's type alone.
    """
    if isinstance(answer, Limited):
        return not answer.reached_tool
    return call.consent is None and isinstance(answer, McpRefusal | Unsupported) and answer is link.refusal
