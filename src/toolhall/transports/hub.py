"""The hub Tool API: one message per POST, many over a WebSocket or as lines."""

import logging
from collections.abc import Awaitable, Callable

from toolhall.dialects.hub import catalog, messages
from toolhall.dialects.hub.errors import MethodNotFound
from toolhall.dialects.hub.leasing import HEARTBEAT, JOIN, LEAVE
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound, ToolhallError
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.model.json import Json, JsonObject
from toolhall.pipeline.manage import Change
from toolhall.registrar.registrar import Registrar
from toolhall.transports.busy import no_place
from toolhall.transports.cancellation import Cancellation
from toolhall.transports.exchange import Exchange
from toolhall.transports.health import Examine, Vitals, report, sound, unexamined
from toolhall.transports.joining import Joining
from toolhall.transports.plain_link import PLAIN
from toolhall.transports.presence import WhilePresent
from toolhall.transports.registering import Registering
from toolhall.transports.sender import NOWHERE, Posting, Sender
from toolhall.transports.shield import Shield

COMPONENTS = ("core", "tools", "servers", "all")  # the hub itself knows no servers
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Hub:
    """Answers messages, whatever brings them."""

    def __init__(
        self,
        hall: Hall,
        registrar: Registrar,
        configure: Callable[[JsonObject], list[str]],
        state: Callable[[], str] = sound,
        joining: Joining | None = None,
        examine: Examine = unexamined,
    ) -> None:
        self._hall = hall
        self._configure = configure
        self._state = state
        self._joining = joining
        self._examine = examine
        self._registering = Registering(hall, registrar, catalog)
        self._cancellation = Cancellation()
        self._methods: dict[str, Callable[[JsonObject, Caller], Awaitable[Json]]] = {
            "register_tool": self._register,
            "health_check": self._health,
            "update_config": self._update,
            # Extensions of ours: the hub's written API has no way to list, look up, remove or cancel.
            "list_tools": self._list,
            "get_tool": self._get,
            "unregister_tool": self._unregister,
        }
        if joining is not None:
            self._methods |= {HEARTBEAT: joining.heartbeat, LEAVE: joining.leave}

    async def answer(self, body: bytes | None, caller: Caller, line: str = "", sender: Sender = NOWHERE) -> Wire:
        """The one reply to a message (None: too large); `line` is what it came on, where many come on one."""
        try:
            message = messages.read_message(body)
        except messages.Unreadable as unreadable:
            return messages.write_unreadable(unreadable, self._refused(unreadable, caller, len(body or b"")))
        if isinstance(message, messages.CoreRequest):
            return await self._manage(message, caller, line, sender)
        try:
            work: Awaitable[Answer] = self._run(message, caller, len(body or b""))
            if message.id is not None:
                work = self._cancellation.run(((caller.id, line, message.id),), work)
            answer = await work
        except ToolhallError as error:
            answer = error
        if isinstance(answer, Finished):
            return messages.write_tool_response(message, answer)
        if isinstance(answer, ToolhallError):
            return messages.write_tool_error(message, answer)
        raise TypeError("this dialect has no way to ask a caller back")

    def turn_away(self, body: bytes) -> Wire:
        """What a message is told for which there is no place, on a line on which others must be read behind it."""
        error = no_place()
        try:
            message = messages.read_message(body)
        except messages.Unreadable as unreadable:
            return messages.write_unreadable(unreadable, error)
        if isinstance(message, messages.CoreRequest):
            return messages.write_error(message, error)
        return messages.write_tool_error(message, error)

    def _refused(self, unreadable: messages.Unreadable, caller: Caller, size: int) -> ToolhallError:
        """What would have run a tool is recorded and counts, as far as it could be read."""
        if unreadable.kind != "tool_response":
            return unreadable.error
        call = CallTool(".".join(unreadable.named.values()), {}, catalog.name, size)
        return self._hall.refuse(call, caller, unreadable.error)

    async def _run(self, request: messages.ToolRequest, caller: Caller, size: int) -> Answer:
        name = (request.tool, request.method)
        entry = self._hall.registry.published.find(catalog.name, name, request.version)
        if entry is not None and self._hall.find(entry.id, caller):
            return await self._hall.answer(CallTool(entry.id, request.params, catalog.name, size), caller, PLAIN)
        version = "" if request.version is None else f"@{request.version}"
        missing = f"{request.tool}.{request.method}{version}"
        answer = await self._hall.answer(CallTool(missing, request.params, catalog.name, size), caller, PLAIN)
        return self._unfound(request, caller, answer) if type(answer) is NotFound else answer

    def _unfound(self, request: messages.ToolRequest, caller: Caller, unknown: NotFound) -> ToolhallError:
        """What exactly is not there, as far as this caller may know."""
        methods = {tool.id.tool for tool in self._hall.view(caller).tools if tool.id.toolkit == request.tool}
        if request.method in methods:
            return NotFound("this tool is not served in this version; leave out the version for the newest")
        if methods:
            return MethodNotFound(f"{request.tool} has no method {request.method[:64]!r}; get_tool names those it has")
        return NotFound(f"{unknown.message}; list_tools names those there are")

    async def _manage(self, request: messages.CoreRequest, caller: Caller, line: str, sender: Sender) -> Wire:
        try:
            if request.method == JOIN and self._joining is not None:
                joined = await self._joining.join(request.params, caller, sender)
                return messages.write_response(request, joined)
            return messages.write_response(request, await self._managed(request, caller, line))
        except ToolhallError as error:
            return messages.write_error(request, error)

    async def _managed(self, request: messages.CoreRequest, caller: Caller, line: str) -> Json:
        if request.method == "cancel":  # an extension, too
            return self._cancel(request.params.get("id"), caller, line)
        method = self._methods.get(request.method)
        if method is None:
            known = ", ".join([*self._methods, JOIN, "cancel"])
            raise MethodNotFound(f"the hub has no method {request.method[:64]!r}; it has {known}")
        return await method(request.params, caller)

    async def _register(self, params: JsonObject, caller: Caller) -> Json:
        kept = await self._registering.register(params, caller)
        return {"tool_id": f"{kept.toolkit}@{kept.version}", "status": "registered", "state": kept.state}

    async def _health(self, params: JsonObject, caller: Caller) -> Json:
        wanted = params.get("components", ["all"])
        if not isinstance(wanted, list) or not all(each in COMPONENTS for each in wanted):
            raise Malformed(f"components is a list of {', '.join(COMPONENTS)}")
        vitals = await self._examine()
        if not self._hall.manage.allows(caller):  # which servers there are is nobody else's business
            vitals = Vitals(vitals.toolkits)
        whole = report(self._hall.view(caller), self._state(), vitals)
        if "all" in wanted:
            return whole
        return {**whole, "components": {key: whole["components"].get(key, {}) for key in wanted}}

    async def _update(self, params: JsonObject, caller: Caller) -> Json:
        change = Change("configure", catalog.name, params)
        applied = await self._hall.manage(change, caller, lambda: self._apply(params))
        return {"status": "updated", "applied_changes": applied}

    async def _apply(self, params: JsonObject) -> list[str]:
        config = params.get("config")
        if not isinstance(config, dict):
            raise Malformed("config must be an object")
        return self._configure(config)

    async def _list(self, params: JsonObject, caller: Caller) -> Json:
        cursor = params.get("cursor")
        if not isinstance(cursor, str | None):
            raise Malformed("cursor is the nextCursor of the page before, a text; leave it out for the first page")
        return self._registering.page(caller, cursor)

    async def _get(self, params: JsonObject, caller: Caller) -> Json:
        found = self._registering.document(*_named(params), caller)
        if found is None:
            raise NotFound("there is no such tool; list_tools names them")
        return found

    async def _unregister(self, params: JsonObject, caller: Caller) -> Json:
        await self._registering.unregister(*_named(params), caller)
        return {"status": "unregistered"}

    def _cancel(self, request_id: Json, caller: Caller, line: str) -> Json:
        if not messages.is_id(request_id):
            raise Malformed("id is that of the request to cancel")
        done = self._cancellation.cancel((caller.id, line, request_id))
        return {"status": "cancelled" if done else "not_running"}


class HubHttp:
    """`POST /hub`: one message, one reply."""

    def __init__(self, hub: Hub, shield: Shield) -> None:
        self._hub = hub
        self._shield = shield

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one message."""
        body = await self._shield.body(exchange.headers, exchange.receive)
        sender = Posting(exchange.scope, exchange.headers, exchange.identity)
        wire = await WhilePresent(exchange, self._hub.answer(body, exchange.caller, sender=sender))
        if wire is not None:
            await exchange.reply(wire)


def _named(params: JsonObject) -> tuple[str, str | None]:
    """Which tool is meant, and which version of it; None means any."""
    name, version = params.get("name"), params.get("version")
    if not isinstance(name, str) or not isinstance(version, str | None):
        raise Malformed("send the name of a tool, and its version as a text if only one is meant")
    return name, version


def configure(config: JsonObject) -> list[str]:
    """Apply the settings that may change while the hall runs: the log's level; which were applied."""
    logging_part = config.get("logging")
    if set(config) != {"logging"} or not isinstance(logging_part, dict) or set(logging_part) != {"level"}:
        raise Malformed('only {"logging": {"level": "INFO"}} can change while the hall runs')
    level = str(logging_part["level"]).upper()
    if level not in LEVELS:
        raise Malformed(f"logging.level must be one of {', '.join(LEVELS)}")
    logging.getLogger("toolhall").setLevel(level)
    return ["logging.level"]
