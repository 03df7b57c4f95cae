"""`ToolsPage`: what waits for a person, the tools, a form to call one, and how clients connect; without JavaScript.

It stands in for the console where that was not built. A call takes the way of every call, through the dispatcher.
"""

from collections.abc import Collection, Sequence
from typing import TypeAlias

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.error_details import error_text, hints_of, problems_of, result_json
from toolhall.dialects.openapi.errors import write_error
from toolhall.http.call_context import NO_INTERACTION, cancel_on_disconnect
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import ENDPOINTS, base_url
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound, ToolFailed, ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.messages import Answer, CallTool, CompletedCall
from toolhall.pipeline.approvals import APPROVE_PATH, ApprovalService, can_view, person_of
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registry.search import MAX_QUERY
from toolhall.registry.snapshot import Entry
from toolhall.stores.approvals import Approval
from toolhall.stores.common import StoreFailed
from toolhall.web import views
from toolhall.web.auth import PageAuth, PageUser, SignInPage
from toolhall.web.html import Page
from toolhall.web.public_url import PublicUrl, mcp_servers
from toolhall.web.static_files import packaged_files

CONSOLE_PATH = "/console/"
PAGE_CALL_DIALECT = "page"  # of calls in the audit log
MAX_LISTED = 200
MAX_SHOWN = 200_000  # characters of a result
_MAX_SAMPLE_DEPTH = 4
_SAMPLES: dict[str, object] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "null": None}
_NO_TOOL = "there is no such tool, or none that you may see"
Parameter: TypeAlias = tuple[str, str, bool, str]  # name, type, whether it is required, description


class PageOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call from the page ended."""

    status: int = 200
    text: str = ""  # the result
    is_cut: bool = False
    message: str = ""  # the error
    problems: Sequence[JsonObject] = ()
    url: str | None = None  # of the page where a person can do something about it


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """What of the page depends on the request: the tool that was chosen, the words of the search, the call."""

    tool: str | None = None
    query: str = ""
    problem: str = ""
    arguments: str | None = None  # as the person wrote them
    outcome: PageOutcome | None = None


class ToolsPage(SignInPage):
    """Lists the tools of the signed-in person, and calls one by a form."""

    actions = frozenset({"call"})

    def __init__(
        self,
        hall: str,
        dispatcher: Dispatcher,
        approvals: ApprovalService,
        page_auth: PageAuth,
        public_url: PublicUrl,
    ) -> None:
        super().__init__(page_auth, public_url)
        self._hall = hall
        self._approvals = approvals
        self._dispatcher = dispatcher

    async def get(self, request: HttpRequest) -> None:
        """Send the list, and with `?tool=ID` the form of that tool."""
        await self._show(request, await self._page_auth.current_user(request))

    async def _handle_signed_in(
        self, request: HttpRequest, user: PageUser, caller: Caller, fields: dict[str, str]
    ) -> None:
        tool, arguments = fields.get("tool", ""), fields.get("arguments", "")
        outcome = await cancel_on_disconnect(request, self._call(caller, tool, arguments))
        if outcome is not None:  # else the person has left
            state = PageState(tool=tool, arguments=arguments, outcome=outcome)
            await self._send(request, user, outcome.status, await self._page(request, user, caller, state))

    async def _call(self, caller: Caller, name: str, text: str) -> PageOutcome:
        body = text.strip().encode("utf-8", "replace")
        refused = CallTool(name, {}, PAGE_CALL_DIALECT, len(body))
        try:
            arguments, encoded = strict_json.decode_and_encode(body) if body else ({}, None)
            if not isinstance(arguments, dict):
                raise Malformed("the arguments must be a JSON object, such as {}")
        except ToolhallError as error:
            return _outcome(self._dispatcher.refuse(refused, caller, error))
        call = CallTool(name, arguments, PAGE_CALL_DIALECT, len(body), None, None, None, encoded)
        return _outcome(await self._dispatcher.answer(call, caller, NO_INTERACTION))

    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        if user.caller is None:
            page = views.tools_sign_in(self._csrf_tokens(request, user)("sign_in"), problem)
            await self._send(request, user, status, page)
            return
        parameters = request.parameters
        state = PageState(tool=parameters.get("tool"), query=parameters.get("query", ""), problem=problem)
        await self._send(request, user, status, await self._page(request, user, user.caller, state))

    async def _waiting(self, caller: Caller) -> list[Approval] | None:
        """Return the calls that wait for this person; None if they cannot be read now."""
        try:
            return [each for each in await self._approvals.store.pending() if can_view(caller, each)]
        except StoreFailed:
            return None

    async def _page(self, request: HttpRequest, user: PageUser, caller: Caller, state: PageState) -> Page:
        snapshot = self._dispatcher.visible_snapshot(caller)
        chosen = None if state.tool is None else snapshot.find(state.tool)
        words = set(state.query[:MAX_QUERY].casefold().split())
        found = [entry for entry in snapshot.listed if _matches(entry, words)]
        parameters = [] if chosen is None else parameters_of(chosen.tool.input)
        is_unknown = state.tool is not None and chosen is None and state.outcome is None
        url = self._public_url.configured or base_url(request.scope, request.headers)
        return Page(
            "tools.html",
            {
                "title": self._hall,
                "problem": state.problem or (_NO_TOOL if is_unknown else ""),
                "person": person_of(caller),
                "signed_in": not caller.local,
                "waiting": await self._waiting(caller),
                "approve_path": f"{self._public_url.prefix}{APPROVE_PATH}",
                "tools": [self._row(entry) for entry in found[:MAX_LISTED]],
                "total": len(snapshot.listed),
                "found": len(found),
                "query": state.query[:MAX_QUERY],
                "chosen": None if chosen is None else self._row(chosen),
                "parameters": parameters,
                "are_described": any(description for *_, description in parameters),
                "arguments": _first_arguments(chosen) if state.arguments is None else state.arguments,
                "outcome": state.outcome,
                "csrf_token": self._csrf_tokens(request, user),
                "url": url,
                "endpoints": [(name, url + path) for name, path in ENDPOINTS.items()],
                "snippet": _indented(mcp_servers(self._hall, url, with_key=not caller.local)),
                "console_built": packaged_files().shell is not None,
            },
        )

    def _row(self, entry: Entry) -> JsonObject:
        tool = entry.tool
        return {
            "id": entry.id,
            "name": f"{tool.id.toolkit}.{tool.id.tool}",
            "version": tool.id.version,
            "description": tool.description or tool.title or "",
            "effect": views.describe_effect(tool.effect),
            "kind": tool.effect or "unknown",
            "level": self._dispatcher.policy.level_of(tool),
        }


def parameters_of(schema: JsonObject) -> Sequence[Parameter]:
    """Return the parameters of an input schema, as far as they are stated at its top."""
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    return [
        (name, _type_of(each), name in required, str(each.get("description", "")) if isinstance(each, dict) else "")
        for name, each in properties.items()
    ]


def sample_value(schema: object, depth: int = 0) -> object:
    """Return a value to begin with: an example or the default, else the emptiest value of its type."""
    if not isinstance(schema, dict) or depth > _MAX_SAMPLE_DEPTH:
        return None
    for source in ("const", "default"):
        if source in schema:
            return schema[source]
    for source in ("examples", "enum"):
        if isinstance(schema.get(source), list) and schema[source]:
            return schema[source][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required", ())
        return {name: sample_value(each, depth + 1) for name, each in properties.items() if name in required}
    return {} if kind == "object" else _SAMPLES.get(str(kind))


def _type_of(schema: object) -> str:
    kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _first_arguments(chosen: Entry | None) -> str:
    if chosen is None:
        return ""
    examples = chosen.tool.input.get("examples")
    first = examples[0] if isinstance(examples, list) and examples else sample_value(chosen.tool.input)
    return _indented(first if isinstance(first, dict) else {})


def _matches(entry: Entry, words: Collection[str]) -> bool:
    tool = entry.tool
    text = f"{entry.id} {tool.name} {tool.title or ''} {tool.description or ''}".casefold()
    return all(word in text for word in words)


def _outcome(answer: Answer) -> PageOutcome:
    match answer:
        case CompletedCall() if answer.result.is_error:
            return _failed(ToolFailed(error_text(answer)))
        case CompletedCall():
            text = answer.result.text if answer.result.text is not None else _pretty(result_json(answer))
            return PageOutcome(text=text[:MAX_SHOWN], is_cut=len(text) > MAX_SHOWN)
        case ToolhallError():
            return _failed(answer)
        case _:
            raise TypeError("the page has no way to ask a person back")


def _failed(error: ToolhallError) -> PageOutcome:
    message = _NO_TOOL if type(error) is NotFound else error.message
    url = hints_of(error).get("url")
    return PageOutcome(
        status=write_error(error).status,
        message=message,
        problems=problems_of(error),
        url=url if isinstance(url, str) and url.startswith(("http://", "https://")) else None,
    )


def _pretty(value: bytes) -> str:
    return msgspec.json.format(value, indent=2).decode("utf-8", "replace")


def _indented(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
