"""`CallHandler`: runs the calls that a hall sends to this tool server, and answers each of them exactly once.

It is independent of the transport: HTTP (`http`) and WebSocket (`hub_websocket`) pass messages to it. A tool gets
exactly the credentials that it declares, of those that the call carries. Reading a resource, getting a prompt and
completing one of their arguments are calls, too.
"""

import logging
import time
from collections.abc import Sequence

import msgspec

from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Definition, takes_typed
from toolhall.dialects.hub import catalog, messages
from toolhall.dialects.hub.call_messages import CANCEL, HEALTH, AnswerMessage, CallContext, RemoteCall
from toolhall.dialects.hub.catalog import write_declaration
from toolhall.dialects.hub.errors import MethodNotFound
from toolhall.dialects.hub.results import NoSuchMethod, NotStarted, write_contents, write_failure, write_result
from toolhall.execution.executor import ExecutorLimits, FunctionExecutor
from toolhall.execution.health_checks import HealthChecks, worst_state
from toolhall.http.call_context import CancellableCalls
from toolhall.model.caller import ANONYMOUS, Allow, Caller
from toolhall.model.errors import (
    BadArguments,
    BadOutput,
    Broken,
    Cancelled,
    Malformed,
    NeedsRequirement,
    NotFound,
    ToolhallError,
)
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Call, InputRequiredSignal, WireResponse
from toolhall.model.names import newest_version
from toolhall.model.requirements import AccountToken, MissingRequirement, Requirements, ResolvedCredentials
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.model.tool import Tool
from toolhall.pipeline.complete import completed_texts, completing_entry, matching_texts
from toolhall.pipeline.contents import prompt_result, resource_result, text_result
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Equipped, Raw
from toolhall.redaction.log_redaction import start_redaction, stop_redaction
from toolhall.redaction.redactor import redactor_for
from toolhall.registry.snapshot import CompletionRunner, Entry, compile_entry
from toolhall.schema.signature import with_binding_problems
from toolhall.schema.types import to_json
from toolhall.toolserver.hub_link import HubLink, OutgoingQueue

MAX_CALLS = 256
_ALLOWED_BY_HALL = Allow("the hall")  # which has authorized the call
_log = logging.getLogger("toolhall.toolserver")


class CallHandler:
    """Runs calls, delivers answers to their questions, and handles requests of the hall itself."""

    def __init__(
        self,
        definitions: Sequence[Definition],
        limits: ExecutorLimits,
        max_calls: int = MAX_CALLS,
        entries: Sequence[Entry] = (),
    ) -> None:
        """`entries` are tools with runners of their own, beside those of functions."""
        self.executor = FunctionExecutor(limits, Run.tool_of_frame)
        self._definitions = tuple(definitions)
        self._run = Run(limits.default_timeout, self.executor.activity)
        self._health_checks = HealthChecks(self.executor.thread_pool)
        self._max_calls = max_calls
        self._max_result_bytes = limits.worker_limits.result_bytes
        self._draining = False
        self._cancellation = CancellableCalls()
        self._links: dict[tuple[str, str], HubLink] = {}  # of running calls, by channel and id
        self._entries: dict[tuple[str, str], dict[str, Entry]] = {}  # by toolkit and method, then by version
        self._tools = (*(each.tool for each in self._definitions), *(each.tool for each in entries))
        for definition in self._definitions:
            self._add(definition)
        for entry in entries:
            self._add_entry(entry)
        self.executor.lifespans.add_toolkits(self._definitions)

    @property
    def running(self) -> int:
        """How many calls run now."""
        return len(self._links)

    @property
    def declarations(self) -> list[JsonObject]:
        """The declarations for the hall: one document for each version of a toolkit."""
        tools: dict[tuple[str, str], list[Tool]] = {}
        for tool in self._tools:
            tools.setdefault((tool.id.toolkit, tool.id.version), []).append(tool)
        return [write_declaration(tuple(each)) for each in tools.values()]

    async def open(self) -> None:
        """Enter lifespans, start the watchdog, and preload the egress client if it is needed; raises LifespanFailed."""
        await self.executor.lifespans.enter()
        self.executor.watchdog.watch()
        if any(entry.requirements for versions in self._entries.values() for entry in versions.values()):
            await self.executor.egress.preload()

    def drain(self) -> None:
        """Refuse new calls; running ones go on."""
        self._draining = True

    async def close(self) -> None:
        """Leave the lifespans, and end threads and worker processes."""
        await self._health_checks.close()
        await self.executor.lifespans.leave()
        self.executor.close()

    async def run_call(self, call: RemoteCall, size: int, outgoing: OutgoingQueue, channel: str = "") -> WireResponse:
        """Run a call and return its one response; events and questions go out over `outgoing`.

        Ids are unique within a `channel`. Never raises, except when cancelled.
        """
        try:
            link = HubLink(call.id, call.context.can, outgoing, call.context.reports)
            prepared = self._prepare(call, link, size)
            return self._encode_result(call, await self._run_tool(call, prepared, link, channel))
        except ToolhallError as error:
            return write_failure(call.id, error, call.tool, call.method)
        except InputRequiredSignal:  # the hall repeats the call with the answer, and ignores this response
            return write_failure(call.id, Cancelled("the answer comes with a later call"), call.tool, call.method)
        except Exception:  # noqa: BLE001 - a bug of ours; every call gets a response
            _log.exception("call %s was not answered", call.context.call or call.id)
            return write_failure(call.id, Broken(), call.tool, call.method)

    def deliver_answer(self, answer: AnswerMessage, channel: str = "") -> bool:
        """Deliver the answer to a question; False if no call waits for it."""
        link = self._links.get((channel, answer.id))
        return link is not None and link.deliver_answer(answer)

    async def handle_request(self, request: messages.HubRequest, channel: str = "") -> WireResponse:
        """Handle a request of the hall itself: to cancel a call, or to report health."""
        try:
            if request.method == CANCEL:
                return messages.write_response(request, self._cancel(request.params.get("id"), channel))
            if request.method == HEALTH:
                return messages.write_response(request, await self.health())
            raise MethodNotFound(f"a tool server has no method {request.method[:64]!r}; it has {CANCEL} and {HEALTH}")
        except ToolhallError as error:
            return messages.write_error(request, error)

    async def health(self) -> JsonObject:
        """The health response: the state of each toolkit, and the worst of them as the whole."""
        states = await self._health_checks.states(self._definitions)
        return {"status": worst_state(states.values()), "components": {"tools": states}}

    def _add(self, definition: Definition) -> None:
        tool = definition.tool
        completers = {
            name: CompletionRunner(self.executor.completion_runner(definition, name), takes_typed(body))
            for name, body in definition.completions.items()
        }
        runner, bind = self.executor.runner_for(definition), definition.body.bind
        self._add_entry(compile_entry(tool, runner, known_good=True, bind=bind, completers=completers))

    def _add_entry(self, entry: Entry) -> None:
        tool = entry.tool
        versions = self._entries.setdefault((tool.id.toolkit, tool.id.tool), {})
        if tool.id.version in versions:
            raise BadDeclaration(f"{tool.id} is there twice; give one of the two another name or version")
        # The hall limits events: it knows the client.
        versions[tool.id.version] = msgspec.structs.replace(entry, is_interactive=False)

    def _find_entry(self, call: RemoteCall) -> Entry:
        versions = self._entries.get((call.tool, call.method))
        if versions is None:
            if any(toolkit == call.tool for toolkit, _ in self._entries):
                raise NoSuchMethod(f"{call.tool} has no method {call.method[:64]!r}")
            raise NotFound(f"this tool server does not run {call.tool[:64]!r}")
        version = newest_version(versions) if call.version is None else call.version
        if version not in versions:
            raise NotFound(f"this tool server runs {call.tool}.{call.method} in {', '.join(versions)} only")
        return versions[version]

    def _prepare(self, call: RemoteCall, link: HubLink, size: int) -> Equipped:
        if self._draining:
            raise NotStarted("this tool server is about to end")
        if len(self._links) >= self._max_calls:
            raise NotStarted(f"this tool server runs {self._max_calls} calls already")
        entry = self._find_entry(call)
        if call.kind not in ("tool", entry.tool.kind):
            raise NoSuchMethod(f"{call.tool}.{call.method} is a {entry.tool.kind}")
        return (
            _prepare_call(call, entry, link, size) if call.complete is None else _prepare_completion(call, entry, link)
        )

    async def _run_tool(self, call: RemoteCall, prepared: Equipped, link: HubLink, channel: str) -> Raw:
        key = (channel, call.id)
        if key in self._links:
            raise Malformed("a call with this id runs already")
        self._links[key] = link
        try:
            return await self._cancellation.run([("", *key)], self._run(prepared, call.context.timeout))
        finally:
            del self._links[key]

    def _encode_result(self, call: RemoteCall, raw: Raw) -> WireResponse:
        """Encode the value; problems with it are logged, redacted with the secrets of the call."""
        redaction = None if raw.redactor is None else start_redaction(raw.redactor)
        try:
            wire = _write_value(call, raw)
        except BadOutput:
            raise
        except Exception as error:
            _log.exception("%s %s returned what cannot be written as JSON", raw.entry.tool.kind, raw.entry.id)
            raise BadOutput("the tool returned something that cannot be written as JSON") from error
        finally:
            if redaction is not None:
                stop_redaction(redaction)
        if len(wire.body) > self._max_result_bytes:
            _log.error("%s %s returned %d bytes", raw.entry.tool.kind, raw.entry.id, len(wire.body))
            raise BadOutput(f"the tool returned {len(wire.body)} bytes; at most {self._max_result_bytes} are passed on")
        return wire

    def _cancel(self, call_id: object, channel: str) -> JsonObject:
        if not isinstance(call_id, str):
            raise Malformed("id is that of the call to cancel, a text")
        cancelled = self._cancellation.cancel(("", channel, call_id))
        return {"status": "cancelled" if cancelled else "not_running"}


def _prepare_call(call: RemoteCall, entry: Entry, link: HubLink, size: int) -> Equipped:
    """The call for the run stage of the pipeline; the hall has authorized it, so only the arguments are validated."""
    if not entry.input_validator.accepts(call.params):
        raise BadArguments(
            with_binding_problems(entry.input_validator.problems(call.params, size), call.params, size, entry.bind)
        )
    context = call.context
    credentials = credentials_from_context(entry.requirements, context)
    redactor = None if credentials is None else redactor_for(None, credentials.secret_values)
    local_call = _local_call(call, entry, link, size)
    return Equipped(local_call, entry, _ALLOWED_BY_HALL, call.params, None, redactor, credentials)


def _prepare_completion(call: RemoteCall, entry: Entry, link: HubLink) -> Equipped:
    """The call of the function that completes an argument; it gets no credentials, so none are asked for."""
    completer = entry.completions.get(call.complete or "")
    typed, given = call.params.get("typed"), call.params.get("given", {})
    if not isinstance(completer, CompletionRunner):
        raise NoSuchMethod(f"{call.tool}.{call.method} has no completion of {(call.complete or '')[:64]!r}")
    if not isinstance(typed, str) or not isinstance(given, dict):
        raise Malformed("a completion has 'typed', a text, and 'given', an object")
    arguments = {"typed": typed, "given": given}
    local_call = _local_call(call, entry, link, 0)
    return Equipped(local_call, completing_entry(entry, completer), _ALLOWED_BY_HALL, arguments)


def _local_call(call: RemoteCall, entry: Entry, link: HubLink, size: int) -> Call:
    return Call(
        id=call.context.call or call.id,
        tool=entry.id,
        arguments=call.params,
        caller=caller_from_context(call.context),
        link=link,
        dialect=catalog.name,
        size=size,
        started=time.monotonic(),
        requested_name=call.uri,
        kind=entry.tool.kind,
    )


def _write_value(call: RemoteCall, raw: Raw) -> WireResponse:
    """Encode a value, contents, messages or completions; no such resource is written like no value."""
    entry, value = raw.entry, raw.value
    if call.complete is not None:
        completer, texts = entry.completions[call.complete], completed_texts(value, entry)
        chooses = isinstance(completer, CompletionRunner) and completer.takes_typed
        return write_result(call.id, texts if chooses else matching_texts(texts, call.params["typed"]))
    if entry.tool.prompt is not None:
        return write_contents(call.id, prompt_result(value))
    if entry.uri_template is None:
        return write_result(call.id, value)
    uri = entry.uri_template.expand(_texts(call.params)) if raw.requested_name is None else raw.requested_name
    if isinstance(value, str):
        return write_contents(call.id, text_result(value, entry, uri))
    try:
        return write_contents(call.id, resource_result(value, entry, uri, to_json))
    except NotFound:
        return write_result(call.id, None)


def _texts(values: JsonObject) -> dict[str, str | list[str]]:
    """The values of variables as a URI has them."""
    return {name: [*map(_text, value)] if isinstance(value, list) else _text(value) for name, value in values.items()}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def caller_from_context(context: CallContext) -> Caller:
    """The caller that the hall names in the call."""
    return ANONYMOUS if context.caller is None else context.caller.caller


def credentials_from_context(needs: Requirements | None, context: CallContext) -> ResolvedCredentials | None:
    """The credentials that the tool declares; raises NeedsRequirement with those that the hall did not send."""
    if needs is None:
        return None
    missing = [
        *(MissingRequirement("secret", name) for name in needs.secrets if name not in context.secrets),
        *(
            MissingRequirement("account", account=need)
            for need in needs.accounts
            if need.provider not in context.accounts
        ),
    ]
    if needs.user_id and context.user_id is None:
        missing.append(MissingRequirement("user_id"))
    if missing:
        raise NeedsRequirement("the call came without what the tool declares to need", missing=missing)
    accounts = {need.provider: _account_token(need.provider, context) for need in needs.accounts}
    secrets = {name: _secret(name, context.secrets[name]) for name in needs.secrets}
    return ResolvedCredentials(secrets, accounts, context.user_id if needs.user_id else None)


def _account_token(provider: str, context: CallContext) -> AccountToken:
    account = context.accounts[provider]
    return AccountToken(provider, _secret(provider, account.token), account.scopes, account.expires_at)


def _secret(name: str, value: str) -> Secret:
    try:
        return Secret(value)
    except ValueError:
        raise Malformed(f"what came for {name[:64]!r} is shorter than {MIN_SECRET_LENGTH} characters") from None
