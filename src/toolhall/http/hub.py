"""The hub Tool API: `HubHandler` answers messages from HTTP, WebSocket or stdio; `HubHttp` serves `POST /hub`."""

import logging
from collections.abc import Awaitable, Callable

from toolhall.dialects.hub import catalog, messages
from toolhall.dialects.hub.errors import MethodNotFound
from toolhall.dialects.hub.lease_messages import HEARTBEAT, JOIN, LEAVE
from toolhall.http.call_context import NO_INTERACTION, CancellableCall, CancellableCalls, respond, with_hook
from toolhall.http.dialect_definitions import DialectDefinitions
from toolhall.http.errors import busy_error
from toolhall.http.health import ComponentCheck, ComponentHealth, always_healthy, health_report, no_components
from toolhall.http.repeatable_calls import RepeatableCalls
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
from toolhall.http.tool_server_join import UNKNOWN_PEER, HttpPeer, HubPeer, JoinEndpoint
from toolhall.model.caller import Caller
from toolhall.model.errors import Cancelled, Malformed, NotFound, ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Answer, CallTool, CompletedCall, WireResponse
from toolhall.model.tool import Tool
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.service import RegistrationService

COMPONENTS = ("core", "tools", "servers", "all")  # `servers` is an extension
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class HubHandler:
    """Answers hub messages from any transport."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        registration: RegistrationService,
        configure: Callable[[JsonObject], list[str]],
        state: Callable[[], str] = always_healthy,
        join_endpoint: JoinEndpoint | None = None,
        check_components: ComponentCheck = no_components,
    ) -> None:
        self._dispatcher = dispatcher
        self._configure = configure
        self._state = state
        self._join_endpoint = join_endpoint
        self._check_components = check_components
        self._definitions = DialectDefinitions(dispatcher, registration, catalog)
        self._running_calls = CancellableCalls()
        self._long_calls = RepeatableCalls(dispatcher, catalog.name)
        self._methods: dict[str, Callable[[JsonObject, Caller], Awaitable[Json]]] = {
            "register_tool": self._register,
            "health_check": self._health,
            "update_config": self._update_config,
            # Extensions: the hub's written API has no way to list, look up, remove or cancel.
            "list_tools": self._list,
            "get_tool": self._get,
            "unregister_tool": self._unregister,
        }
        if join_endpoint is not None:
            self._methods |= {HEARTBEAT: join_endpoint.heartbeat, LEAVE: join_endpoint.leave}

    async def answer(
        self,
        body: bytes | None,
        caller: Caller,
        connection: str = "",
        peer: HubPeer = UNKNOWN_PEER,
        on_suspend: Callable[[], None] | None = None,
    ) -> WireResponse:
        """Return the response to a message (None: too large); `connection` names the socket or stream it came on.

        `on_suspend` is called when the message first has to wait; it may be called again.
        """
        try:
            message = messages.read_message(body)
        except messages.HubDecodeError as unreadable:
            return messages.write_decode_error(
                unreadable, self._refuse_unreadable(unreadable, caller, len(body or b""))
            )
        if isinstance(message, messages.HubRequest):
            return await with_hook(self._answer_core(message, caller, connection, peer), on_suspend)
        call, tool = self._resolve_call(message, caller, len(body or b""))
        answer: Answer
        if message.id is None:
            answer = await self._dispatcher.answer(call, caller, NO_INTERACTION, on_suspend)
        else:
            running = CancellableCall(self._running_calls, ((caller.id, connection, message.id),), on_suspend)
            if tool is None or tool.task is None or isinstance(message.id, int):  # numbers are counted anew
                work = self._dispatcher.answer(call, caller, NO_INTERACTION, running.start)
            else:
                work = self._long_calls.answer(message.id, call, caller, running.start)
            try:
                answer = await running.run(work)
            except Cancelled as cancelled:
                answer = cancelled
        if tool is None and type(answer) is NotFound:
            answer = self._not_found_error(message, caller, answer)
        if isinstance(answer, CompletedCall):
            return messages.write_tool_response(message, answer)
        if isinstance(answer, ToolhallError):
            return messages.write_tool_error(message, answer)
        raise TypeError("this dialect has no way to ask a caller back")

    def busy_response(self, body: bytes) -> WireResponse:
        """Return the busy error for a message on a connection whose later messages must still be read."""
        error = busy_error()
        try:
            message = messages.read_message(body)
        except messages.HubDecodeError as unreadable:
            return messages.write_decode_error(unreadable, error)
        if isinstance(message, messages.HubRequest):
            return messages.write_error(message, error)
        return messages.write_tool_error(message, error)

    def _refuse_unreadable(self, unreadable: messages.HubDecodeError, caller: Caller, size: int) -> ToolhallError:
        """Audit an unreadable message that would have called a tool, as far as it could be read."""
        if unreadable.kind != "tool_response":
            return unreadable.error
        call = CallTool(".".join(unreadable.names.values()), {}, catalog.name, size)
        return self._dispatcher.refuse(call, caller, unreadable.error)

    def _resolve_call(
        self, request: messages.HubToolRequest, caller: Caller, size: int
    ) -> tuple[CallTool, Tool | None]:
        """Return the call by tool id, and the tool; for one that the caller cannot see, by its name, and None."""
        name, version = (request.tool, request.method), request.version
        entry = self._dispatcher.registry.dialect_names.find(catalog.name, name, version)
        tool = None
        if entry is not None and self._dispatcher.policy.can_see(caller, entry.tool):
            tool_id, tool = entry.id, entry.tool
        else:
            tool_id = ".".join(name) + ("" if version is None else f"@{version}")
        call = CallTool(tool_id, request.params, catalog.name, size, None, None, None, request.encoded_params)
        return call, tool

    def _not_found_error(self, request: messages.HubToolRequest, caller: Caller, unknown: NotFound) -> ToolhallError:
        """Tell whether toolkit, method or version is missing, as far as the caller may know."""
        methods = {
            tool.id.tool for tool in self._dispatcher.visible_snapshot(caller).tools if tool.id.toolkit == request.tool
        }
        if request.method in methods:
            return NotFound("this tool is not served in this version; leave out the version for the newest")
        if methods:
            return MethodNotFound(f"{request.tool} has no method {request.method[:64]!r}; get_tool names those it has")
        return NotFound(f"{unknown.message}; list_tools names those there are")

    async def _answer_core(
        self, request: messages.HubRequest, caller: Caller, connection: str, peer: HubPeer
    ) -> WireResponse:
        try:
            if request.method == JOIN and self._join_endpoint is not None:
                joined = await self._join_endpoint.join(request.params, caller, peer)
                return messages.write_response(request, joined)
            return messages.write_response(request, await self._run_core_method(request, caller, connection))
        except ToolhallError as error:
            return messages.write_error(request, error)

    async def _run_core_method(self, request: messages.HubRequest, caller: Caller, connection: str) -> Json:
        if request.method == "cancel":  # an extension, too
            return await self._cancel(request.params.get("id"), caller, connection)
        method = self._methods.get(request.method)
        if method is None:
            known = ", ".join([*self._methods, JOIN, "cancel"])
            raise MethodNotFound(f"the hub has no method {request.method[:64]!r}; it has {known}")
        return await method(request.params, caller)

    async def _register(self, params: JsonObject, caller: Caller) -> Json:
        record = await self._definitions.register(params, caller)
        return {"tool_id": f"{record.toolkit}@{record.version}", "status": "registered", "state": record.state}

    async def _health(self, params: JsonObject, caller: Caller) -> Json:
        selected = params.get("components", ["all"])
        if not isinstance(selected, list) or not all(each in COMPONENTS for each in selected):
            raise Malformed(f"components is a list of {', '.join(COMPONENTS)}")
        components = await self._check_components()
        if not self._dispatcher.admin.may_observe(caller):  # only they see the servers
            components = ComponentHealth(components.toolkits)
        report = health_report(self._dispatcher.visible_snapshot(caller), self._state(), components)
        if "all" in selected:
            return report
        return {**report, "components": {key: report["components"].get(key, {}) for key in selected}}

    async def _update_config(self, params: JsonObject, caller: Caller) -> Json:
        operation = AdminOperation("configure", catalog.name, params)
        applied = await self._dispatcher.admin(operation, caller, lambda: self._apply(params))
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
        return self._definitions.page(caller, cursor)

    async def _get(self, params: JsonObject, caller: Caller) -> Json:
        document = self._definitions.document(*_name_and_version(params), caller)
        if document is None:
            raise NotFound("there is no such tool; list_tools names them")
        return document

    async def _unregister(self, params: JsonObject, caller: Caller) -> Json:
        await self._definitions.unregister(*_name_and_version(params), caller)
        return {"status": "unregistered"}

    async def _cancel(self, request_id: Json, caller: Caller, connection: str) -> Json:
        if not messages.is_id(request_id):
            raise Malformed("id is that of the request to cancel")
        cancelled = self._running_calls.cancel((caller.id, connection, request_id))
        if isinstance(request_id, str):
            cancelled |= await self._long_calls.cancel(request_id, caller)
        return {"status": "cancelled" if cancelled else "not_running"}


class HubHttp:
    """`POST /hub`: one message, one response."""

    def __init__(self, hub: HubHandler, validator: RequestValidator) -> None:
        self._hub = hub
        self._validator = validator

    def __call__(self, request: HttpRequest) -> Awaitable[None]:
        """Answer one message."""
        return respond(request, self._validator, self._answer)

    def _answer(self, request: HttpRequest, body: bytes, on_suspend: Callable[[], None]) -> Awaitable[WireResponse]:
        peer = HttpPeer(request.scope, request.headers, request.authenticator)
        return self._hub.answer(body, request.caller, "", peer, on_suspend)


def _name_and_version(params: JsonObject) -> tuple[str, str | None]:
    """Return the name and version parameters; the version None means any."""
    name, version = params.get("name"), params.get("version")
    if not isinstance(name, str) or not isinstance(version, str | None):
        raise Malformed("send the name of a tool, and its version as a text if only one is meant")
    return name, version


def apply_runtime_config(config: JsonObject) -> list[str]:
    """Apply the settings that can change at run time (the log level); return the names of those applied."""
    logging_part = config.get("logging")
    if set(config) != {"logging"} or not isinstance(logging_part, dict) or set(logging_part) != {"level"}:
        raise Malformed('only {"logging": {"level": "INFO"}} can change while the hall runs')
    level = str(logging_part["level"]).upper()
    if level not in LOG_LEVELS:
        raise Malformed(f"logging.level must be one of {', '.join(LOG_LEVELS)}")
    logging.getLogger("toolhall").setLevel(level)
    return ["logging.level"]
