"""REST beside tools: `/resources`, `/resources/read?uri=`, `/prompts`, `/prompts/{name}` and `/complete`.

Reads and prompts are calls: they go through the dispatcher, with every stage and a record for each. What is not there
and what the caller may not see is answered alike.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.openapi.errors import write_error
from toolhall.dialects.openapi.readings import (
    cache_control,
    write_completion,
    write_contents_response,
    write_messages,
    write_prompt_page,
    write_resource_page,
)
from toolhall.http.call_context import NO_INTERACTION, cancel_on_disconnect, respond, with_hook
from toolhall.http.request import Endpoint, HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.http.rest import DIALECT, check_parameters, page_at, recorded_dialect
from toolhall.model.errors import Malformed, NotFound, ToolhallError
from toolhall.model.json import encode
from toolhall.model.messages import Answer, CallTool, Complete, CompletedCall, ToolPage, WireResponse
from toolhall.pipeline.dispatcher import Dispatcher

PROMPT_PREFIX = "/prompts/"
_NO_STORE = (b"cache-control", b"no-store")  # errors too: what may be read may change
_FLAGS = {"true": True, "false": False}
_COMPLETE_EXAMPLE = '{"prompt": "NAME", "argument": "NAME", "typed": "TEXT"}, or "resource": "URI TEMPLATE"'
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_NOT_FOUND_HINTS = {"resource": "GET /resources lists them", "prompt": "GET /prompts lists them"}


class CompletionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is completed: one argument of a prompt, or one variable of a resource's URI template."""

    argument: _Name
    prompt: _Name | None = None
    resource: _Name | None = None
    typed: str = ""
    given: dict[str, str] = {}


class ReadingEndpoints:
    """Lists and reads resources, lists and gets prompts, and completes their arguments."""

    def __init__(self, dispatcher: Dispatcher, validator: RequestValidator) -> None:
        self._dispatcher = dispatcher
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the paths, each with the endpoint of each method."""
        return {
            "/resources": {"GET": self._listing(self._resources)},
            "/resources/read": {"GET": self.read, "HEAD": self.read},
            "/prompts": {"GET": self._listing(self._prompts)},
            PROMPT_PREFIX: {"POST": self.prompt},
            "/complete": {"POST": self.complete},
        }

    async def read(self, request: HttpRequest) -> None:
        """Send the contents of a resource, or 304 if the client has them."""
        answer = await cancel_on_disconnect(request, self._read(request))
        if answer is None:
            return
        if not isinstance(answer, CompletedCall):
            await request.reply(_error(answer, "resource"), _NO_STORE)
            return
        kept = cache_control(self._dispatcher.freshness(answer.tool))
        wire = write_contents_response(answer, kept)
        request.release_slot()
        if request.has_entity(dict(wire.headers)[b"etag"]):
            unchanged = [header for header in wire.headers if header[0] != b"content-type"]
            await request.send_headers(304, unchanged)
            await request.send_body(b"", more=False)
            return
        await request.send_headers(200, [*wire.headers, (b"content-length", b"%d" % len(wire.body))])
        await request.send_body(b"" if request.method == "HEAD" else wire.body, more=False)

    def prompt(self, request: HttpRequest) -> Awaitable[None]:
        """Send the messages of a prompt."""
        return respond(request, self._validator, self._respond_prompt, body_optional=True)

    def complete(self, request: HttpRequest) -> Awaitable[None]:
        """Send completions of an argument."""
        return respond(request, self._validator, self._respond_completion)

    def _listing(self, page_of: Callable[[HttpRequest], bytes]) -> Endpoint:
        async def send(request: HttpRequest) -> None:
            try:
                if "cursor" not in request.parameters:  # later pages go on from the first one
                    await self._dispatcher.files.refresh()
                wire = WireResponse(page_of(request))
            except ToolhallError as error:
                wire = write_error(error)
            await request.reply(wire)

        return send

    def _resources(self, request: HttpRequest) -> bytes:
        parameters = request.parameters
        check_parameters(parameters, ("templates", "cursor"))
        templates = _FLAGS.get(parameters.get("templates", "false"))
        if templates is None:
            raise Malformed("templates must be true, for URI templates, or false, for resources")
        listing = self._dispatcher.visible_snapshot(request.caller).resources
        page = page_at(listing.template_pages if templates else listing.pages, parameters.get("cursor"))
        return _encoded_once(page, lambda: write_resource_page(page, templates=templates))

    def _prompts(self, request: HttpRequest) -> bytes:
        parameters = request.parameters
        check_parameters(parameters, ("cursor",))
        page = page_at(self._dispatcher.visible_snapshot(request.caller).prompts.pages, parameters.get("cursor"))
        return _encoded_once(page, lambda: write_prompt_page(page))

    async def _read(self, request: HttpRequest) -> Answer:
        dispatcher, caller, parameters = self._dispatcher, request.caller, request.parameters
        uri = parameters.get("uri", "")
        call = CallTool(uri, {}, recorded_dialect(request), len(uri), kind="resource")
        try:
            check_parameters(parameters, ("uri",))
            if not uri:
                raise Malformed("uri is missing; send the URI of a resource, percent-encoded, as ?uri=")
        except ToolhallError as error:
            return dispatcher.refuse(call, caller, error)
        return await dispatcher.answer(call, caller, NO_INTERACTION)

    async def _respond_prompt(self, request: HttpRequest, body: bytes, on_suspend: Callable[[], None]) -> WireResponse:
        dispatcher, caller, parts = self._dispatcher, request.caller, request.path_segments(PROMPT_PREFIX)
        call = CallTool("/".join(parts), {}, recorded_dialect(request), len(body), kind="prompt")
        try:
            check_parameters(request.parameters, ())
            if len(parts) != 1 or not parts[0]:
                raise NotFound("there is no such prompt; use /prompts/NAME")
            arguments = strict_json.decode(body) if body else {}
            if not isinstance(arguments, dict):
                raise Malformed("the body must be an object with the prompt's arguments")
        except ToolhallError as error:
            return write_error(dispatcher.refuse(call, caller, error))
        call = msgspec.structs.replace(call, arguments=arguments)
        answer = await dispatcher.answer(call, caller, NO_INTERACTION, on_suspend)
        if isinstance(answer, CompletedCall):
            return WireResponse(encode(write_messages(answer)))
        return _error(answer, "prompt")

    async def _respond_completion(
        self, request: HttpRequest, body: bytes, on_suspend: Callable[[], None]
    ) -> WireResponse:
        try:
            check_parameters(request.parameters, ())
            asked = _completion(body)
        except ToolhallError as error:
            return write_error(error)
        completion = await with_hook(self._dispatcher.complete(asked, request.caller), on_suspend)
        if isinstance(completion, ToolhallError):
            return _error(completion, asked.kind)
        return WireResponse(encode(write_completion(completion)))


def _completion(body: bytes) -> Complete:
    try:
        asked = msgspec.convert(strict_json.decode(body), CompletionBody)
    except msgspec.ValidationError as error:
        raise Malformed(f"{str(error)[:160]}; write {_COMPLETE_EXAMPLE}") from None
    name = asked.prompt if asked.resource is None else asked.resource
    if name is None or None not in (asked.prompt, asked.resource):
        raise Malformed(f"name one prompt or one resource; write {_COMPLETE_EXAMPLE}")
    return Complete(
        kind="prompt" if asked.resource is None else "resource",
        name=name,
        argument=asked.argument,
        typed=asked.typed,
        given=asked.given,
        dialect=DIALECT,
    )


def _error(answer: Answer, kind: str) -> WireResponse:
    """Write what a read, a prompt or a completion ended with; for an unknown one, with where to find them."""
    if type(answer) is NotFound:
        return write_error(NotFound(f"{answer.message}; {_NOT_FOUND_HINTS[kind]}"))
    if isinstance(answer, ToolhallError):
        return write_error(answer)
    raise TypeError("REST has no way to ask a caller back")


def _encoded_once(page: ToolPage, write: Callable[[], bytes]) -> bytes:
    if DIALECT not in page.encoded:
        page.encoded[DIALECT] = write()
    return page.encoded[DIALECT]
