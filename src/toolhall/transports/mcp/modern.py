"""MCP 2026-07-28: every request stands alone and brings its own terms."""

from toolhall.dialects.mcp.asks import read_call, read_list
from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import unknown_method
from toolhall.dialects.mcp.revisions import MODERN
from toolhall.dialects.mcp.terms import Terms, modern_terms
from toolhall.dialects.mcp.write import Server, Writer
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import Asked, CallTool, Finished, Page, Wire
from toolhall.transports.mcp.links import ModernLink, Outlet
from toolhall.transports.mcp.rounds import Rounds
from toolhall.transports.mcp.subscriptions import Subscriptions

LISTEN = "subscriptions/listen"


class Modern:
    """Answers requests; remembers nothing between them."""

    def __init__(self, hall: Hall, server: Server, rounds: Rounds) -> None:
        self._hall = hall
        self._rounds = rounds
        self.writer = Writer(server, MODERN)
        self.subscriptions = Subscriptions(hall.registry, self.writer)

    async def answer(self, request: Request, caller: Caller, outlet: Outlet, size: int) -> Wire:
        """The one reply to a request other than `subscriptions/listen`."""
        try:
            terms = modern_terms(request)
            match request.method:
                case "tools/call":
                    return await self._call(request, terms, caller, outlet, size)
                case "tools/list":
                    return self._page(request, await self._hall.answer(read_list(request), caller))
                case "server/discover":
                    return self.writer.discovered(request.id)
                case _:
                    raise unknown_method(request.method)
        except ToolhallError as error:
            return self.writer.error(request.id, error)

    async def _call(self, request: Request, terms: Terms, caller: Caller, outlet: Outlet, size: int) -> Wire:
        call = read_call(request, "mcp@2026-07-28", size)
        replies = self._rounds.replies(request, call, caller) if "requestState" in request.params else {}
        link = ModernLink(outlet, terms, self.writer, replies)
        answer = await self._hall.answer(call, caller, link)
        match answer:
            case Finished():
                return self.writer.finished(request.id, answer)
            case Asked():
                return self._asked(request, call, caller, answer)
            case ToolhallError():
                return self.writer.error(request.id, answer)
            case Page():
                raise TypeError("a call is never answered by a page")

    def _asked(self, request: Request, call: CallTool, caller: Caller, asked: Asked) -> Wire:
        state = self._rounds.next(request, call, caller, list(asked.questions))
        return self.writer.asked(request.id, asked, state)

    def _page(self, request: Request, answer: object) -> Wire:
        if isinstance(answer, Page):
            return self.writer.page(request.id, answer)
        raise answer if isinstance(answer, ToolhallError) else TypeError("a list is answered by a page")
