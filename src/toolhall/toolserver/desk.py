"""Where calls from a hall are taken: finds the tool, runs it as a hall would, and answers each call exactly once."""

import logging
import time
from collections.abc import Sequence

import msgspec

from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Definition
from toolhall.dialects.hub import catalog, messages
from toolhall.dialects.hub.declaring import declaration
from toolhall.dialects.hub.endings import NoSuchMethod, NotStarted, write_end, write_failure
from toolhall.dialects.hub.errors import MethodNotFound
from toolhall.dialects.hub.remote import CANCEL, HEALTH, Answering, RemoteCall
from toolhall.model.call import Call
from toolhall.model.errors import BadArguments, BadOutput, Broken, Cancelled, Malformed, NotFound, ToolhallError
from toolhall.model.exchange import Asking, Wire
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.model.verdict import Allow
from toolhall.model.versions import newest
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Equipped, Raw
from toolhall.registry.entry import Entry, compile_entry
from toolhall.runners.checkup import Checkup, worst
from toolhall.runners.discretion import hush, unhush
from toolhall.runners.redactor import redactor_for
from toolhall.runners.staff import Means, Staff
from toolhall.schema.binding import with_forms
from toolhall.toolserver.link import CallLink
from toolhall.toolserver.outgoing import Outgoing
from toolhall.toolserver.supplying import caller_of, equipment_for
from toolhall.transports.cancellation import Cancellation

MOST_CALLS = 256
_ALLOWED = Allow("the hall")  # which has asked everybody who must be asked
_log = logging.getLogger("toolhall.toolserver")


class Desk:
    """Takes calls, answers to their questions, and the hall's own requests, whatever line brings them."""

    def __init__(self, definitions: Sequence[Definition], means: Means, most: int = MOST_CALLS) -> None:
        self.staff = Staff(means, Run.tool_in)
        self._definitions = tuple(definitions)
        self._run = Run(means.seconds, self.staff.activity)
        self._checkup = Checkup(self.staff.threads)
        self._most = most
        self._most_bytes = means.limits.result_bytes
        self._draining = False
        self._cancellation = Cancellation()
        self._links: dict[tuple[str, str], CallLink] = {}  # of the calls that run, by line and id
        self._entries: dict[tuple[str, str], dict[str, Entry]] = {}  # by toolkit and method, then by version
        for definition in self._definitions:
            self._add(definition)
        self.staff.lifespans.add_toolkits(self._definitions)

    @property
    def running(self) -> int:
        """Calls that have begun and not ended."""
        return len(self._links)

    @property
    def declarations(self) -> list[JsonObject]:
        """Everything that is run here, as a hall is told: a document for each version of a toolkit."""
        tools: dict[tuple[str, str], list[Tool]] = {}
        for definition in self._definitions:
            tools.setdefault((definition.tool.id.toolkit, definition.tool.id.version), []).append(definition.tool)
        return [declaration(tuple(each)) for each in tools.values()]

    async def open(self) -> None:
        """Watch over the loop that runs now, and do before the first call what takes long; raises LifespanFailed."""
        await self.staff.lifespans.enter()
        self.staff.watchdog.watch()
        if any(entry.needs for versions in self._entries.values() for entry in versions.values()):
            await self.staff.outside.ready()

    def drain(self) -> None:
        """Take no more calls; those that run go on."""
        self._draining = True

    async def close(self) -> None:
        """Leave the toolkits, and end what still runs in threads and processes."""
        await self._checkup.close()
        await self.staff.lifespans.leave()
        self.staff.close()

    async def run(self, call: RemoteCall, size: int, outgoing: Outgoing, line: str = "") -> Wire:
        """The one answer to a call; what it says before goes out by itself. `line` is what its id belongs to."""
        try:
            return self._written(call, await self._answered(call, size, outgoing, line))
        except ToolhallError as error:
            return write_failure(call.id, error, call.tool, call.method)
        except Asking:  # a later call brings the answer, and nobody reads this
            return write_failure(call.id, Cancelled("the answer comes with a later call"), call.tool, call.method)
        except Exception:  # noqa: BLE001 - a fault of ours; every call gets an answer
            _log.exception("call %s was not answered", call.context.call or call.id)
            return write_failure(call.id, Broken(), call.tool, call.method)

    def answer(self, answering: Answering, line: str = "") -> bool:
        """What came of a question; False if nobody waits for that."""
        link = self._links.get((line, answering.id))
        return link is not None and link.answered(answering)

    async def manage(self, request: messages.CoreRequest, line: str = "") -> Wire:
        """Answer what the hall itself wants: to cancel a call, or to know how the tools are."""
        try:
            if request.method == CANCEL:
                return messages.write_response(request, self._cancel(request.params.get("id"), line))
            if request.method == HEALTH:
                return messages.write_response(request, await self.health())
            raise MethodNotFound(f"a tool server has no method {request.method[:64]!r}; it has {CANCEL} and {HEALTH}")
        except ToolhallError as error:
            return messages.write_error(request, error)

    async def health(self) -> JsonObject:
        """How it is: the worst of its tools is the whole's state."""
        states = await self._checkup.states(self._definitions)
        return {"status": worst(states.values()), "components": {"tools": states}}

    def _add(self, definition: Definition) -> None:
        tool = definition.tool
        entry = compile_entry(tool, self.staff.runner(definition), known_good=True, bind=definition.body.bind)
        versions = self._entries.setdefault((tool.id.toolkit, tool.id.tool), {})
        if tool.id.version in versions:
            raise BadDeclaration(f"{tool.id} is there twice; give one of the two another name or version")
        # How much it may tell is bounded by the hall, which knows who listens.
        versions[tool.id.version] = msgspec.structs.replace(entry, tells=False)

    def _found(self, call: RemoteCall) -> Entry:
        versions = self._entries.get((call.tool, call.method))
        if versions is None:
            if any(toolkit == call.tool for toolkit, _ in self._entries):
                raise NoSuchMethod(f"{call.tool} has no method {call.method[:64]!r}")
            raise NotFound(f"this tool server does not run {call.tool[:64]!r}")
        version = newest(versions) if call.version is None else call.version
        if version not in versions:
            raise NotFound(f"this tool server runs {call.tool}.{call.method} in {', '.join(versions)} only")
        return versions[version]

    async def _answered(self, call: RemoteCall, size: int, outgoing: Outgoing, line: str) -> Raw:
        if self._draining:
            raise NotStarted("this tool server is about to end")
        if len(self._links) >= self._most:
            raise NotStarted(f"this tool server runs {self._most} calls already")
        key = (line, call.id)
        if key in self._links:
            raise Malformed("a call with this id runs already")
        link = CallLink(call.id, call.context.can, outgoing)
        equipped = _equipped(call, self._found(call), link, size)
        self._links[key] = link
        try:
            return await self._cancellation.run([("", *key)], self._run(equipped, call.context.timeout))
        finally:
            del self._links[key]

    def _written(self, call: RemoteCall, raw: Raw) -> Wire:
        """The value as JSON; what is wrong with it goes to the log, without the secrets of the call."""
        hushed = None if raw.redactor is None else hush(raw.redactor)
        try:
            wire = write_end(call.id, raw.value)
        except Exception as error:
            _log.exception("tool %s returned what cannot be written as JSON", raw.entry.id)
            raise BadOutput("the tool returned something that cannot be written as JSON") from error
        finally:
            if hushed is not None:
                unhush(hushed)
        if len(wire.body) > self._most_bytes:
            _log.error("tool %s returned %d bytes", raw.entry.id, len(wire.body))
            raise BadOutput(f"the tool returned {len(wire.body)} bytes; at most {self._most_bytes} are passed on")
        return wire

    def _cancel(self, call_id: object, line: str) -> JsonObject:
        if not isinstance(call_id, str):
            raise Malformed("id is that of the call to cancel, a text")
        done = self._cancellation.cancel(("", line, call_id))
        return {"status": "cancelled" if done else "not_running"}


def _equipped(call: RemoteCall, entry: Entry, link: CallLink, size: int) -> Equipped:
    """As far as a hall brings a call before it runs; the hall has said yes to it, so only its form is judged here."""
    if not entry.accepts.accepts(call.params):
        raise BadArguments(with_forms(entry.accepts.problems(call.params, size), call.params, size, entry.bind))
    context = call.context
    equipment = equipment_for(entry.needs, context)
    ours = Call(
        id=context.call or call.id,
        tool=entry.id,
        arguments=call.params,
        caller=caller_of(context),
        link=link,
        dialect=catalog.name,
        size=size,
        started=time.monotonic(),
    )
    redactor = None if equipment is None else redactor_for(None, equipment.hidden)
    return Equipped(ours, entry, _ALLOWED, call.params, None, redactor, equipment)
