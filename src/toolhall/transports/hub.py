"""The hub Tool API: one message per POST, many over a WebSocket or as lines."""

import logging
from collections.abc import Awaitable, Callable

from toolhall.dialects.catalogs import documents_of, toolkits
from toolhall.dialects.hub import catalog, messages
from toolhall.dialects.hub.errors import MethodNotFound
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound, ToolhallError, Unavailable
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.model.json import Json, JsonObject
from toolhall.registry.index import Index
from toolhall.registry.registry import Conflict
from toolhall.registry.shelf import Shelf
from toolhall.transports.cancellation import Cancellation
from toolhall.transports.exchange import Exchange
from toolhall.transports.health import report
from toolhall.transports.shield import Shield


class Hub:
    """Answers messages, whatever brings them."""

    def __init__(self, hall: Hall, shelf: Shelf, configure: Callable[[JsonObject], list[str]]) -> None:
        self._hall = hall
        self._shelf = shelf
        self._configure = configure
        self._index = Index(lambda tool: (tool.id.toolkit, tool.id.tool))
        self._cancellation = Cancellation()
        self._methods: dict[str, Callable[[JsonObject, Caller], Json]] = {
            "register_tool": self._register,
            "health_check": self._health,
            "update_config": self._update,
            # Extensions of ours: the hub's written API has no way to list, look up, remove or cancel.
            "list_tools": self._list,
            "get_tool": self._get,
            "unregister_tool": self._unregister,
            "cancel": self._cancel,
        }

    async def answer(self, body: bytes, caller: Caller) -> Wire:
        """The one reply to a message."""
        try:
            message = messages.read_message(body)
        except messages.Unreadable as unreadable:
            return messages.write_error(unreadable.id, unreadable.error)
        if isinstance(message, messages.CoreRequest):
            return self._manage(message, caller)
        try:
            work: Awaitable[Answer] = self._run(message, caller, len(body))
            if message.id is not None:
                work = self._cancellation.run((caller.id, message.id), work)
            answer = await work
        except ToolhallError as error:
            answer = error
        if isinstance(answer, Finished):
            return messages.write_tool_response(message, answer)
        if isinstance(answer, ToolhallError):
            return messages.write_tool_error(message, answer)
        raise TypeError("this dialect has no way to ask a caller back")

    async def _run(self, request: messages.ToolRequest, caller: Caller, size: int) -> Answer:
        snapshot = self._hall.registry.snapshot
        entry = self._index.find(snapshot, (request.tool, request.method), request.version)
        if entry is not None:
            return await self._hall.answer(CallTool(entry.id, request.params, catalog.name, size), caller)
        if self._shelf.holds(request.tool, request.method):
            return Unavailable("this tool is registered, but nothing runs it; it is not active")
        if any(tool.id.toolkit == request.tool for tool in self._hall.view(caller).tools):
            return MethodNotFound(f"{request.tool} has no method {request.method[:64]!r}")
        name = f"{request.tool}.{request.method}"
        return await self._hall.answer(CallTool(name, request.params, catalog.name, size), caller)

    def _manage(self, request: messages.CoreRequest, caller: Caller) -> Wire:
        method = self._methods.get(request.method)
        try:
            if method is None:
                raise MethodNotFound(
                    f"the hub has no method {request.method[:64]!r}; it has {', '.join(self._methods)}"
                )
            return messages.write_response(request, method(request.params, caller))
        except ToolhallError as error:
            return messages.write_error(request.id, error)

    def _register(self, params: JsonObject, caller: Caller) -> Json:  # noqa: ARG002
        tools = catalog.read(params)
        if any(entry.tool.id.toolkit == tools[0].id.toolkit for entry in self._hall.registry.snapshot.entries):
            raise Malformed(f"{tools[0].id.toolkit!r} is served already; register under another name")
        try:
            self._shelf.put(params, tools)
        except Conflict as conflict:
            raise Malformed(str(conflict)) from None
        return {"tool_id": f"{tools[0].id.toolkit}@{tools[0].id.version}", "status": "registered"}

    def _health(self, params: JsonObject, caller: Caller) -> Json:  # noqa: ARG002
        wanted = params.get("components", ["all"])
        if not isinstance(wanted, list) or not set(wanted) <= {"core", "tools", "all"}:
            raise Malformed("components is a list of core, tools or all")
        whole = report(self._hall.registry.snapshot)
        if "all" in wanted:
            return whole
        return {**whole, "components": {key: whole["components"][key] for key in wanted}}

    def _update(self, params: JsonObject, caller: Caller) -> Json:  # noqa: ARG002
        config = params.get("config")
        if not isinstance(config, dict):
            raise Malformed("config must be an object")
        return {"status": "updated", "applied_changes": self._configure(config)}

    def _list(self, params: JsonObject, caller: Caller) -> Json:  # noqa: ARG002
        return {"tools": documents_of(self._hall.view(caller).tools, catalog)}

    def _get(self, params: JsonObject, caller: Caller) -> Json:
        for tools in toolkits(self._hall.view(caller).tools):
            if tools[0].id.toolkit == params.get("name") and params.get("version") in (None, tools[0].id.version):
                return catalog.write(tools)
        raise NotFound("there is no such tool")

    def _unregister(self, params: JsonObject, caller: Caller) -> Json:  # noqa: ARG002
        name, version = params.get("name"), params.get("version")
        if not isinstance(name, str) or not self._shelf.remove(name, version if isinstance(version, str) else None):
            raise NotFound("no tool of that name was registered here")
        return {"status": "unregistered"}

    def _cancel(self, params: JsonObject, caller: Caller) -> Json:
        request_id = params.get("id")
        done = isinstance(request_id, str) and self._cancellation.cancel((caller.id, request_id))
        return {"status": "cancelled" if done else "not_running"}


class HubHttp:
    """`POST /hub`: one message, one reply."""

    def __init__(self, hub: Hub, shield: Shield) -> None:
        self._hub = hub
        self._shield = shield

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one message."""
        if exchange.method != "POST":
            await exchange.refuse(405, "use POST, or GET as a WebSocket", (b"allow", b"POST"))
            return
        body = await self._shield.body(exchange.headers, exchange.receive)
        await exchange.reply(await self._hub.answer(body, exchange.caller))


def configure(config: JsonObject) -> list[str]:
    """Apply the settings that may change while the hall runs: the log's level; which were applied."""
    logging_part = config.get("logging")
    level = logging_part.get("level") if isinstance(logging_part, dict) else None
    number = logging.getLevelNamesMapping().get(str(level).upper())
    if number is None or set(config) != {"logging"} or set(config["logging"]) != {"level"}:
        raise Malformed('only {"logging": {"level": "INFO"}} can change while the hall runs')
    logging.getLogger("toolhall").setLevel(number)
    return ["logging.level"]
