"""ToolClient, the protocol of every source of tools, and `open_tool_client`; ToolInfo, CallResult, DialectViews.

Described is what ToolInfo, ResourceDescription and PromptDescription (descriptions.py) have in common.
"""

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.options import SourceOptions
from toolhall.cli.settings import with_example_services
from toolhall.cli.target_names import EXAMPLES_PACKAGE
from toolhall.config import Config
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28, REVISIONS
from toolhall.model.caller import effective_level
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.names import precedence
from toolhall.model.tool import Kind, Tool
from toolhall.schema.defaults import Bind

if TYPE_CHECKING:
    from toolhall.cli.clients.descriptions import PromptDescription, ResourceDescription
    from toolhall.dialects.base import Loss
    from toolhall.dialects.convert.export import InexpressibleTool

_ID_KEY = "dev.toolhall/id"
_TAGS_KEY = "dev.toolhall/tags"
_LEVEL_KEY = "dev.toolhall/level"
_PROTOCOL_PREFIX = "io.modelcontextprotocol/"
_REVISIONS = tuple(f"mcp@{name}" for name in REVISIONS)
_DIALECTS = (*_REVISIONS, "machine", "hub", "oxp", "openapi", "openai", "anthropic", "gemini")


DescribedT = TypeVar("DescribedT", bound="Described")


class RevisionNotSupported(CommandError):
    """The server does not support this revision of MCP."""


class UnknownResource(CommandError):
    """There is no resource by this URI, or none that the caller may read."""


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of every tool, resource and prompt; None for what the source does not state."""

    name: str
    id: str | None = None
    title: str | None = None
    description: str | None = None
    level: int | None = None  # as it is stated
    effective_level: int | None = None  # see model/caller.py
    version: str | None = None

    @property
    def key(self) -> str:
        """The id without the version, `Toolkit.tool`; the name of what has no id."""
        # A toolkit's name may hold an @.
        return self.id.rpartition("@")[0] or self.id if self.id else self.name

    def common_summary(
        self, kind: Kind, effect: str | None, schema: JsonObject | None, output: JsonObject | None = None
    ) -> JsonObject:
        """The members of `list --json` that all kinds have."""
        return {
            "id": self.id,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "level": self.level,
            "effect": effect,
            "version": self.version,
            "inputSchema": schema,
            "outputSchema": output,
            "effectiveLevel": self.effective_level,
            "kind": kind,
        }


class ToolInfo(Described, frozen=True, kw_only=True):
    """A tool as its source describes it."""

    effect: str | None = None
    input: JsonObject
    output: JsonObject | None = None
    result_schema: JsonObject | None = None  # of structured content
    annotations: JsonObject | None = None
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    requirements: JsonObject | None = None
    versions: tuple[str, ...] = ()  # all versions of this tool, newest first

    @property
    def reads_only(self) -> bool:
        """Whether it states that it changes nothing."""
        return self.effect == "reads"

    def summary(self) -> JsonObject:
        """The members that `list --json` prints."""
        return self.common_summary("tool", self.effect, self.input, self.output)


class RenderedTools(msgspec.Struct, frozen=True):
    """Tools as documents of a dialect, with what these lose, and the tools that the dialect cannot express."""

    documents: list[JsonObject]
    losses: "list[Loss]"
    refused: "list[InexpressibleTool]" = []


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call, with MCP's members."""

    content: list[JsonObject]
    structured: Json = msgspec.UNSET
    is_error: bool = False
    meta: JsonObject | None = None

    def document(self) -> JsonObject:
        """The document that `call --json` prints."""
        document: JsonObject = {"content": self.content}
        if self.structured is not msgspec.UNSET:
            document["structuredContent"] = self.structured
        document["isError"] = self.is_error
        return document | ({"_meta": self.meta} if self.meta else {})

    def text(self) -> str:
        """The texts of all text blocks, one per line."""
        return "\n".join(
            str(block["text"]) for block in self.content if block.get("type") == "text" and "text" in block
        )


class CallUI(Protocol):
    """Shows progress and log of a running call and answers its questions."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Show progress."""
        ...

    def log(self, level: str, data: Json) -> None:
        """Show a log message."""
        ...

    def answer(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a question of the tool, an MCP request such as `elicitation/create`."""
        ...


class ToolClient(Protocol):
    """A source of tools that can be listed and called: targets in this process, or a server."""

    where: str

    def tools(self) -> list[ToolInfo]:
        """All tools."""
        ...

    def render(self, dialect: str, info: ToolInfo | None = None) -> RenderedTools:
        """All tools, or this one, as documents of a dialect; CommandError if a server does not support it."""
        ...

    def resources_and_prompts(self, revision: str) -> list[JsonObject]:
        """The definitions of all resources, templates and prompts, as a client of this revision of MCP sees them."""
        ...

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> CallResult:
        """Call a tool and wait at most so many seconds; raises CommandError."""
        ...

    def resources(self) -> "list[ResourceDescription]":
        """All listed resources and URI templates."""
        ...

    def prompts(self) -> "list[PromptDescription]":
        """All prompts."""
        ...

    def read_resource(self, uri: str, ui: CallUI, seconds: float) -> JsonObject:
        """The result of `resources/read`; raises UnknownResource, or CommandError."""
        ...

    def get_prompt(self, name: str, arguments: dict[str, str], ui: CallUI, seconds: float) -> JsonObject:
        """The result of `prompts/get` of a prompt by its published name; raises CommandError."""
        ...

    def with_levels(self, described: list[DescribedT]) -> list[DescribedT]:
        """The same tools, resources or prompts with their effective levels, as far as the source tells them."""
        ...

    def argument_binding(self, info: ToolInfo) -> Bind | None:
        """How the tool's function takes its arguments, if it runs in this process."""
        ...

    def asks_before(self, info: ToolInfo) -> bool:
        """Whether the hall itself shows this call to the person at the terminal and asks."""
        ...

    def print_warnings(self) -> None:
        """Print warnings for the author of the tools, if they are loaded in this process."""
        ...

    def unavailable_reason(self, name: str) -> str | None:
        """Why a tool that exists is not served, and what to do; None if nothing is known of it."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


@contextlib.contextmanager
def open_tool_client(options: SourceOptions, target: str | None, config: Config) -> Generator[ToolClient, None, None]:
    """The client that the options name, closed at the end; without a target and a URL, of the example toolkits."""
    if options.target and target:
        raise UsageError(f"two targets were given, {options.target!r} and {target!r}; leave out one")
    target = options.target or target
    if options.url and target:
        raise UsageError(f"give a target ({target!r}) or --url, not both")
    if options.key is not None and not options.url:
        raise UsageError("--key is sent to a running server; name it with --url, or leave out --key")
    with contextlib.ExitStack() as stack:
        client: ToolClient
        if options.url:
            from toolhall.cli.clients.remote import RemoteToolClient  # lazy: it imports this module

            client = RemoteToolClient(options.url, options.key)
        else:
            from toolhall.cli.clients.local import LocalToolClient  # lazy: the whole hall

            targets = [target] if target else []
            examples = not targets or EXAMPLES_PACKAGE in targets
            client = LocalToolClient(targets, stack.enter_context(with_example_services(config, served=examples)))
        stack.callback(client.close)
        yield client


def full_dialect_name(name: str) -> str:
    """The full name of the dialect that --dialect names."""
    from toolhall.dialects.catalogs import writable_catalog  # lazy: every dialect

    try:
        return writable_catalog(name).name
    except Malformed as error:
        raise UsageError(f"--dialect: {error.message}") from None


def tool_info(tool: Tool, levels: Mapping[str, int] | None = None) -> ToolInfo:
    """The ToolInfo of a Tool, with its effective level under the operator's `levels`."""
    document = write_tool(tool, REVISION_2026_07_28)
    return ToolInfo(
        name=tool.name,
        id=str(tool.id),
        title=tool.title,
        description=tool.description,
        level=tool.level,
        effective_level=effective_level(tool, levels),
        effect=tool.effect or _effect(document.get("annotations")),
        version=tool.id.version,
        input=tool.input,
        output=tool.output.schema,
        result_schema=document.get("outputSchema"),
        annotations=document.get("annotations"),
        tags=tool.tags,
        timeout=tool.timeout,
        requirements=tool.requirements,
    )


def read_tool_info(document: Json) -> ToolInfo | None:
    """The ToolInfo of an MCP definition; None if the document is not one."""
    match document:
        case {"name": str(name), "inputSchema": dict(schema)}:
            meta = object_or_empty(document.get("_meta"))
            tool_id, tags, level = text_or_none(meta.get(_ID_KEY)), meta.get(_TAGS_KEY), meta.get(_LEVEL_KEY)
            output = document.get("outputSchema")
            return ToolInfo(
                name=name,
                id=tool_id,
                title=text_or_none(document.get("title")),
                description=text_or_none(document.get("description")),
                level=level if isinstance(level, int) else None,
                effect=_effect(document.get("annotations")),
                version=tool_id.rpartition("@")[2] if tool_id else None,
                input=schema,
                output=output if isinstance(output, dict) else None,
                result_schema=output if isinstance(output, dict) else None,
                annotations=object_or_empty(document.get("annotations")) or None,
                tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
            )
        case _:
            return None


def read_call_result(result: Json) -> CallResult:
    """Read the result of `tools/call`; CommandError if it has no content."""
    match result:
        case {"content": list(content)} if all(isinstance(block, dict) for block in content):
            notes = object_or_empty(result.get("_meta"))
            return CallResult(
                content=content,
                structured=result.get("structuredContent", msgspec.UNSET),
                is_error=result.get("isError") is True,
                meta={key: note for key, note in notes.items() if not key.startswith(_PROTOCOL_PREFIX)} or None,
            )
        case _:
            raise CommandError("the server's answer is no result of a tool: it has no content")


def with_all_versions(tools: Sequence[ToolInfo]) -> list[ToolInfo]:
    """The same tools, each with all versions of its key, newest first."""
    versions: dict[str, list[str]] = {}
    for info in tools:
        if info.version:
            versions.setdefault(info.key, []).append(info.version)
    for known in versions.values():
        known.sort(key=precedence, reverse=True)
    return [msgspec.structs.replace(info, versions=tuple(versions.get(info.key, ()))) for info in tools]


def with_unique_names(tools: Sequence[ToolInfo]) -> list[ToolInfo]:
    """The same tools; of several with one name, the newest version keeps it and the others get their ids as names."""
    newest = {info.name: info for info in _oldest_first(tools)}
    return [
        info if newest[info.name] is info or not info.id else msgspec.structs.replace(info, name=info.id)
        for info in tools
    ]


def _oldest_first(tools: Sequence[ToolInfo]) -> list[ToolInfo]:
    return sorted(tools, key=lambda info: precedence(info.version or ""))


def find_tool(tools: Sequence[ToolInfo], name: str) -> ToolInfo | None:
    """The tool with this name or id; an id without a version means the published one, usually the newest."""
    by_name, unversioned = _index_by_name(tools)
    return by_name.get(name) or unversioned.get(name)


def closest_name(tools: Sequence[ToolInfo], query: str) -> str | None:
    """The name or id that is most similar to the query, if any is similar."""
    known = {name.casefold(): name for names in _index_by_name(tools) for name in names}
    from difflib import get_close_matches  # lazy: only for a name that is wrong

    near = get_close_matches(query.casefold(), known, 1, 0.5)
    return known[near[0]] if near else None


def _index_by_name(tools: Sequence[ToolInfo]) -> tuple[dict[str, ToolInfo], dict[str, ToolInfo]]:
    tools = _oldest_first(tools)
    by_name = {info.name: info for info in tools}
    by_name |= {info.id: info for info in tools if info.id}
    # A server may publish another version than the newest; unpublished versions have their ids as names.
    published = sorted(tools, key=lambda info: info.name != info.id)
    return by_name, {info.key: info for info in published if info.id}


def _effect(annotations: Json) -> str | None:
    """The effect by MCP's annotations, with MCP's default of destructive; None without such hints."""
    hints = object_or_empty(annotations)
    if hints.get("readOnlyHint") is True:
        return "reads"
    if "readOnlyHint" not in hints and "destructiveHint" not in hints:
        return None
    return "writes" if hints.get("destructiveHint") is False else "destroys"


def object_or_empty(value: Json) -> JsonObject:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_or_none(value: Json) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


def require_tool(client: ToolClient, tools: Sequence[ToolInfo], name: str) -> ToolInfo:
    """The tool with this name or id; CommandError with the reason why it is not served, or the nearest name."""
    info = find_tool(tools, name)
    if info:
        return info
    reason = client.unavailable_reason(name)
    if reason:
        raise CommandError(reason)
    near = closest_name(tools, name)
    hint = f"did you mean {near!r}?" if near else "see the names with 'toolhall list'"
    raise CommandError(f"there is no tool {name!r}; {hint}")


class DialectViews(msgspec.Struct, frozen=True):
    """A tool as each dialect shows it, and what each dialect loses."""

    tool: ToolInfo
    views: dict[str, JsonObject]
    losses: "dict[str, list[Loss]]"

    @property
    def revisions(self) -> dict[str, JsonObject]:
        """The views of the MCP revisions, which can be compared member by member."""
        return {dialect: view for dialect, view in self.views.items() if dialect in _REVISIONS}

    @property
    def other_dialects(self) -> dict[str, JsonObject]:
        """The views of all other dialects."""
        return {dialect: view for dialect, view in self.views.items() if dialect not in _REVISIONS}

    def differences(self) -> list[JsonObject]:
        """The members that differ between MCP revisions, with their values; a revision without one is left out."""
        members = dict.fromkeys(name for view in self.revisions.values() for name in view)
        return [
            {
                "path": f"/{name}",
                "values": {dialect: view[name] for dialect, view in self.revisions.items() if name in view},
            }
            for name in members
            if not self.is_same(name)
        ]

    def is_same(self, member: str) -> bool:
        """Whether this member is the same in every MCP revision."""
        return is_same_in(self.revisions, member)

    def document(self) -> JsonObject:
        """The document that `inspect --json` prints."""
        extra = {
            name: getattr(self.tool, name) for name in ("annotations", "tags", "timeout", "requirements", "versions")
        }
        rendered = {"views": self.views, "losses": self.losses, "differences": self.differences()}
        return {**self.tool.summary(), **extra, **rendered}


def is_same_in(views: Mapping[str, JsonObject], member: str) -> bool:
    """Whether a member is the same in all of these documents."""
    return len({encode(view[member]) if member in view else b"" for view in views.values()}) == 1


def collect_views(client: ToolClient, tools: list[ToolInfo]) -> list[DialectViews]:
    """The views of these tools in every dialect that the source supports."""
    return [_views_of(client, info) for info in tools]


def _views_of(client: ToolClient, info: ToolInfo) -> DialectViews:
    result = DialectViews(info, {}, {})
    for dialect in _DIALECTS:
        try:
            rendered = client.render(dialect, info)
        except CommandError:  # the server does not support it
            continue
        if rendered.documents:
            result.views[dialect] = rendered.documents[0]
            result.losses[dialect] = rendered.losses
    return result
