"""Tool, the definition of one tool, resource or prompt: id, schemas, annotations, effect, level and requirements.

A resource and a prompt are definitions like a tool's, with ResourceInfo or PromptInfo beside the rest: one id, input
schema, level and list of requirements, so that versions, grants, reviews and limits are the same for all three kinds.
"""

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import msgspec

from toolhall.model.content import Notes
from toolhall.model.json import JsonChange, JsonObject
from toolhall.model.names import ToolId
from toolhall.model.skill import Skill

Effect: TypeAlias = Literal["reads", "writes", "destroys"]
Kind: TypeAlias = Literal["tool", "resource", "prompt"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEVELS = range(11)
MAX_FRESH = 365 * 86_400
_MIME_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}(?:;[\x20-\x7e]{1,255})?")


class Annotations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """MCP tool annotations, hints for a client's user interface; None means not stated."""

    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


# The MCP annotations that an effect implies.
EFFECT_ANNOTATIONS: Mapping[Effect, Annotations] = {
    "reads": Annotations(read_only=True),
    "writes": Annotations(read_only=False, destructive=False),
    "destroys": Annotations(read_only=False, destructive=True),
}


class Icon(msgspec.Struct, frozen=True, kw_only=True):
    """An icon that a client may show beside the tool's name."""

    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] | None = None
    theme: str | None = None  # light or dark; other values are kept


class Output(msgspec.Struct, frozen=True):
    """The result type: `unstated`, `none` (no value), or values of `schema` (`{}` allows any)."""

    kind: Literal["unstated", "none", "schema"] = "unstated"
    schema: JsonObject | None = None
    description: str | None = None


class ToolkitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a toolkit; every tool of the toolkit carries the same."""

    title: str | None = None
    description: str | None = None
    resources: tuple[JsonObject, ...] | None = None
    metadata: JsonObject | None = None


class Deprecation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The operator's deprecation of a tool: the first day (UTC) without it, and its successor."""

    since: int | None = None  # seconds since 1970
    sunset: str | None = None  # an ISO date
    successor: str | None = None


class HeaderParameter(msgspec.Struct, frozen=True):
    """An argument that HTTP clients repeat in a header (`x-mcp-header`)."""

    header: str
    path: tuple[str, ...]


MAX_KEEP_SECONDS = 7 * 86_400  # of a task


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a tool runs as a task, a call that outlives its request: `@tool(task=Task(required=True))`.

    Without `required`, clients that have no tasks get the answer in line.
    """

    required: bool = False  # never in line
    after_questions: bool = False  # in line until `await ctx.detach()`, a task from there on
    keep: float | None = None  # seconds from its creation; None: an hour, and a week once it asks a person
    in_line: float = 0.0  # seconds in which a quick result answers the request itself, without a task
    again: bool | None = None  # whether it starts over after a crash; None: if it only reads, or is idempotent
    poll: float = 1.0  # seconds between two looks of a client


class Remainder(msgspec.Struct, frozen=True):
    """What the source document states beyond this model, about the toolkit (`group`) and the tool (`item`).

    It is applied again when the tool is written in the dialect that it was read from.
    """

    dialect: str
    group: tuple[JsonChange, ...] = ()
    item: tuple[JsonChange, ...] = ()
    bare: bool = False  # the document had no wrapper around it


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a resource has beside a tool's members; a `uri` with variables is a template of many resources."""

    uri: str  # or a URI template (RFC 6570)
    mime_type: str | None = None
    size: int | None = None  # bytes, if known
    notes: Notes | None = None
    fresh: float = 0.0  # seconds for which a client may keep what it read
    shared: bool = False  # whether what is read is the same for every caller
    listed: bool = True
    exact: bool = False  # text is served byte for byte, because clients check its digest
    completes: tuple[str, ...] = ()  # the variables that have completions
    any_path: bool = False  # a variable may hold `..` and absolute paths
    as_tool: bool = False  # the definition is listed among the tools, and a call of it reads the resource
    template: str | None = None  # of the folder that it is a file of
    skill: Skill | None = None  # that it is the SKILL.md of

    @property
    def is_template(self) -> bool:
        """Whether the URI has variables."""
        return "{" in self.uri


def is_mime_type(text: str) -> bool:
    """Whether a text is a type and a subtype, perhaps with parameters."""
    return _MIME_TYPE.fullmatch(text) is not None


# Members that only the hall's own code may state: what they switch off are checks of everything from outside.
OWN_RESOURCE_MEMBERS = ("exact", "any_path", "as_tool", "template", "skill")


class PromptInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a prompt has beside a tool's members."""

    completes: tuple[str, ...] = ()  # the arguments that have completions


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of one tool, or of a resource or prompt, which have the member of that name.

    The fields of Tool and its parts are stored data: they must not be renamed.
    """

    id: ToolId
    name: str
    stated: str | None = None  # the name in its document, if that is not a valid published name
    input: JsonObject
    output: Output = Output()
    title: str | None = None
    description: str | None = None
    effect: Effect | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()
    tags: tuple[str, ...] = ()
    meta: JsonObject | None = None
    level: int | None = None  # None: not stated, which does not mean 0
    timeout: float | None = None
    header_parameters: tuple[HeaderParameter, ...] = ()
    requirements: JsonObject | None = None
    permissions: tuple[str, ...] | None = None
    about: ToolkitInfo = ToolkitInfo()
    foreign: bool = False  # not from the operator's own code
    deprecation: Deprecation | None = None  # set by the operator, not by the definition
    remainder: Remainder | None = None
    resource: ResourceInfo | None = None
    prompt: PromptInfo | None = None
    task: Task | None = None  # None: every call is answered in line
    upstream_name: str | None = None  # the name, URI or URI template by which its upstream knows it, if it has one

    @property
    def kind(self) -> Kind:
        """Whether this is a tool, a resource or a prompt."""
        if self.resource is not None and not self.resource.as_tool:
            return "resource"
        return "prompt" if self.prompt is not None else "tool"


def may_run_again(tool: Tool) -> bool:
    """Whether a call whose outcome is not known may be run once more: its author says so, or it changes nothing.

    What an upstream says of its own tools is not believed: a hint that lies would repeat an effect.
    """
    if tool.upstream_name is not None and tool.kind == "tool":
        return False
    if tool.task is not None and tool.task.again is not None:
        return tool.task.again
    hints = tool.annotations or Annotations()
    return tool.effect == "reads" or hints.read_only is True or hints.idempotent is True
