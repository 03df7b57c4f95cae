"""Resources as tools (the setting `resources_as_tools`): `Resources.list`, `Resources.read`, and each URI template.

Theory of operation
-------------------
A call of `Resources.read {uri}`, or of a template by its variables, never runs a tool: before the pipeline sees it,
`ResourceTools.to_read` makes it the read of that URI, which goes through every stage under the resource's own id,
level, grants, conditions, approvals and limits, as `resources/read` does. So a name reaches exactly what its caller may
read.
A template is listed among the tools as its own definition (`Entry.as_tool`): whoever may not see the one does not see
the other. A call that is no read (wrong arguments, a tool that this caller may not see) stays what it is, and the
stages answer it like any other.

The result has the contents as blocks; one that is JSON is also the value.
"""

from collections.abc import Callable

import msgspec

from toolhall.model.caller import Allow, Caller
from toolhall.model.content import Resource, Result
from toolhall.model.errors import BadArguments, NotFound, Problem, ToolFailed
from toolhall.model.json import encode
from toolhall.model.messages import Answer, CallTool, CompletedCall
from toolhall.model.names import READ_TOOL
from toolhall.model.tool import Tool
from toolhall.model.uri_expansion import MAX_URI_LENGTH, UriValue
from toolhall.pipeline.policy import LevelPolicy
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry

MAX_MESSAGE = 8 * MAX_URI_LENGTH  # bytes: a character may be written as \uXXXX, beside what the dialect adds
_READ_ID = str(READ_TOOL)
_JSON_TYPE = "application/json"
_decode = msgspec.json.Decoder().decode


class ToolRead(msgspec.Struct, frozen=True):
    """A read in place of a call, and the definition of the tool that was called."""

    tool: Tool
    request: CallTool


class ResourceTools:
    """Turns calls of the tools that stand for resources into reads, and what was read into their results."""

    def __init__(
        self, registry: Registry, policy: LevelPolicy, resolve: Callable[[CallTool, Caller], CallTool]
    ) -> None:
        self._registry = registry
        self._policy = policy
        self._resolve = resolve

    def to_read(self, request: CallTool, caller: Caller) -> ToolRead | BadArguments | None:
        """Return the read that a call of a tool stands for, or None for any other call.

        BadArguments for variables that no URI of the template has.
        """
        entry = self._registry.snapshot.find(request.tool)
        if entry is None or not self._policy.can_see(caller, entry.tool):
            return None
        if entry.tool.resource is not None:
            return self._read_of_template(entry, request, caller)
        if entry.id != _READ_ID or not entry.input_validator.accepts(request.arguments):
            return None
        verdict = self._policy.authorize(caller, entry.tool)
        if isinstance(verdict, Allow):
            verdict = self._policy.authorize_arguments(verdict, caller, entry.tool, request.arguments)
        if not isinstance(verdict, Allow):
            return None
        return ToolRead(entry.tool, self._resolve(_read(request, request.arguments["uri"]), caller))

    def _read_of_template(self, entry: Entry, request: CallTool, caller: Caller) -> ToolRead | BadArguments | None:
        template, given = entry.uri_template, request.arguments
        if request.size > MAX_MESSAGE:  # before anything is checked
            return BadArguments([Problem("", f"no URI is longer than {MAX_URI_LENGTH} characters")])
        if template is None or not entry.input_validator.accepts(given):
            return None
        wanted = {name: value for name, value in given.items() if value is not None}
        uri = template.expand({name: _text(value) for name, value in wanted.items()})
        read = self._resolve(_read(request, uri), caller)
        if (
            read.tool == entry.id
            and {name: each for name, each in read.arguments.items() if each is not None} == wanted
        ):
            return ToolRead(entry.tool, read)
        return BadArguments([Problem("", "no URI of this template has these variables")])


def as_tool_answer(answer: Answer, tool: Tool) -> Answer:
    """Return the answer to a read as that to a call of the tool; a URI that names nothing is its failure."""
    if isinstance(answer, CompletedCall):
        return CompletedCall(tool, _with_value(answer.result))
    return ToolFailed(answer.message) if type(answer) is NotFound else answer


def _read(request: CallTool, uri: str) -> CallTool:
    return msgspec.structs.replace(
        request, tool=uri, arguments={}, requested_name=None, encoded_arguments=None, kind="resource"
    )


def _text(value: object) -> UriValue:
    """Return the text of a variable's value, as it stands in a URI."""
    if isinstance(value, list):
        return [each if isinstance(each, str) else encode(each).decode() for each in value]
    return value if isinstance(value, str) else encode(value).decode()


def _with_value(result: Result) -> Result:
    """Return the result with the value of its only content, if that is JSON."""
    match result.content:
        case (Resource(content=str(text), mime_type=str(mime_type)),) if _is_json(mime_type):
            try:
                return msgspec.structs.replace(result, encoded=encode(_decode(text)))
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return result
        case _:
            return result


def _is_json(mime_type: str) -> bool:
    essence = mime_type.partition(";")[0].strip().lower()
    return essence == _JSON_TYPE or essence.endswith("+json")
