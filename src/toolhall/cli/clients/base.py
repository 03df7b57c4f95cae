"""ToolClient, the protocol of every source of tools, with ToolInfo, DialectViews, CallResult and lookup by name."""

import contextlib
from collections.abc import Generator, Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol

import msgspec

from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.options import SourceOptions
from toolhall.cli.settings import with_example_services
from toolhall.config import Config
from toolhall.dialects.base import Loss
from toolhall.dialects.catalogs import writable_catalog
from toolhall.dialects.convert.export import InexpressibleTool
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28, REVISIONS
from toolhall.model.caller import effective_level
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence
from toolhall.schema.defaults import Bind

_ID_KEY = "dev.toolhall/id"
_TAGS_KEY = "dev.toolhall/tags"
_LEVEL_KEY = "dev.toolhall/level"
_PROTOCOL_PREFIX = "io.modelcontextprotocol/"


class RevisionNotSupported(CommandError):
    """The server does not speak this revision of MCP."""


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a tool; None where its source does not say."""

    name: str
    id: str | None = None
    title: str | None = None
    description: str | None = None
    level: int | None = None  # as it is stated
    effective_level: int | None = None  # the one that counts: see model/caller.py
    effect: str | None = None
    version: str | None = None
    input: JsonObject
    output: JsonObject | None = None
    result_schema: JsonObject | None = None  # what the structured content of a result must match
    annotations: JsonObject | None = None
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    requirements: JsonObject | None = None
    versions: tuple[str, ...] = ()  # that are there, newest first

    @property
    def reads_only(self) -> bool:
        """Whether it says that it changes nothing; silence does not."""
        return self.effect == "reads"

    @property
    def key(self) -> str:
        """What all its versions share: `Toolkit.tool`, where it is known."""
        # A toolkit may have an @ of its own.
        return self.id.rpartition("@")[0] or self.id if self.id else self.name

    def summary(self) -> JsonObject:
        """What `list --json` prints."""
        return {
            "id": self.id,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "level": self.level,
            "effect": self.effect,
            "version": self.version,
            "inputSchema": self.input,
            "outputSchema": self.output,
            "effectiveLevel": self.effective_level,
        }


class RenderedTools(msgspec.Struct, frozen=True):
    """Documents of a dialect, what they cannot say, and the tools that the dialect would change."""

    documents: list[JsonObject]
    losses: list[Loss]
    refused: list[InexpressibleTool] = []


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """One finished call, in MCP's words."""

    content: list[JsonObject]
    structured: Json = msgspec.UNSET
    is_error: bool = False
    meta: JsonObject | None = None

    def document(self) -> JsonObject:
        """What `call --json` prints."""
        document: JsonObject = {"content": self.content}
        if self.structured is not msgspec.UNSET:
            document["structuredContent"] = self.structured
        document["isError"] = self.is_error
        return document | ({"_meta": self.meta} if self.meta else {})

    def text(self) -> str:
        """All its text, joined."""
        return "\n".join(
            str(block["text"]) for block in self.content if block.get("type") == "text" and "text" in block
        )


class CallUI(Protocol):
    """Who attends to a call while it runs: shows what it reports, answers what it asks."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """The call has come this far."""
        ...

    def log(self, level: str, data: Json) -> None:
        """The tool says something."""
        ...

    def answer(self, method: str, params: JsonObject) -> JsonObject:
        """The reply to a question, put as an MCP request."""
        ...


class ToolClient(Protocol):
    """Tools that can be listed and called."""

    where: str

    def tools(self) -> list[ToolInfo]:
        """Every tool."""
        ...

    def render(self, dialect: str, info: ToolInfo | None = None) -> RenderedTools:
        """Every tool, or this one, as a dialect says it; CommandFailed from a server that does not speak it."""
        ...

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> CallResult:
        """Run one tool, at most this long; raises CommandFailed."""
        ...

    def with_levels(self, tools: list[ToolInfo]) -> list[ToolInfo]:
        """The same tools with their effective levels, as far as the source tells them."""
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
        """Let go of everything."""
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
            client = LocalToolClient(targets, stack.enter_context(with_example_services(targets, config)))
        stack.callback(client.close)
        yield client


def full_dialect_name(name: str) -> str:
    """The full name of the dialect that --dialect names."""
    try:
        return writable_catalog(name).name
    except Malformed as error:
        raise UsageError(f"--dialect: {error.message}") from None


def tool_info(tool: Tool, levels: Mapping[str, int] | None = None) -> ToolInfo:
    """A tool of our own, with the level that counts where the operator says this of `levels`."""
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
    """A tool of a server's, from its MCP definition; None where that is not one."""
    match document:
        case {"name": str(name), "inputSchema": dict(schema)}:
            meta = _object(document.get("_meta"))
            tool_id, tags, level = _text(meta.get(_ID_KEY)), meta.get(_TAGS_KEY), meta.get(_LEVEL_KEY)
            output = document.get("outputSchema")
            return ToolInfo(
                name=name,
                id=tool_id,
                title=_text(document.get("title")),
                description=_text(document.get("description")),
                level=level if isinstance(level, int) else None,
                effect=_effect(document.get("annotations")),
                version=tool_id.rpartition("@")[2] if tool_id else None,
                input=schema,
                output=output if isinstance(output, dict) else None,
                result_schema=output if isinstance(output, dict) else None,
                annotations=_object(document.get("annotations")) or None,
                tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
            )
        case _:
            return None


def read_call_result(result: Json) -> CallResult:
    """What a server answered to `tools/call`."""
    match result:
        case {"content": list(content)} if all(isinstance(block, dict) for block in content):
            notes = _object(result.get("_meta"))
            return CallResult(
                content=content,
                structured=result.get("structuredContent", msgspec.UNSET),
                is_error=result.get("isError") is True,
                meta={key: note for key, note in notes.items() if not key.startswith(_PROTOCOL_PREFIX)} or None,
            )
        case _:
            raise CommandError("the server's answer is no result of a tool: it has no content")


def with_all_versions(offers: Sequence[ToolInfo]) -> list[ToolInfo]:
    """The same, each with all the versions that there are of it, newest first."""
    versions: dict[str, list[str]] = {}
    for offer in offers:
        if offer.version:
            versions.setdefault(offer.key, []).append(offer.version)
    for several in versions.values():
        several.sort(key=precedence, reverse=True)
    return [msgspec.structs.replace(offer, versions=tuple(versions.get(offer.key, ()))) for offer in offers]


def with_unique_names(offers: Sequence[ToolInfo]) -> list[ToolInfo]:
    """The same; where several have one name, only the newest version goes by it, and the others by their ids."""
    newest = {offer.name: offer for offer in _oldest_first(offers)}
    return [
        offer if newest[offer.name] is offer or not offer.id else msgspec.structs.replace(offer, name=offer.id)
        for offer in offers
    ]


def _oldest_first(offers: Sequence[ToolInfo]) -> list[ToolInfo]:
    return sorted(offers, key=lambda offer: precedence(offer.version or ""))


def find_tool(offers: Sequence[ToolInfo], name: str) -> ToolInfo | None:
    """The tool with this name or id; without a version the one that has the published name, which is the newest."""
    by_name, unversioned = _index_by_name(offers)
    return by_name.get(name) or unversioned.get(name)


def closest_name(offers: Sequence[ToolInfo], query: str) -> str | None:
    """The name or id that is most like it, if any is."""
    known = {name.casefold(): name for names in _index_by_name(offers) for name in names}
    near = get_close_matches(query.casefold(), known, 1, 0.5)
    return known[near[0]] if near else None


def _index_by_name(offers: Sequence[ToolInfo]) -> tuple[dict[str, ToolInfo], dict[str, ToolInfo]]:
    offers = _oldest_first(offers)
    by_name = {offer.name: offer for offer in offers}
    by_name |= {offer.id: offer for offer in offers if offer.id}
    # A server may publish another version than the newest; those that it does not publish have only their ids.
    published = sorted(offers, key=lambda offer: offer.name != offer.id)
    return by_name, {offer.key: offer for offer in published if offer.id}


def _effect(annotations: Json) -> str | None:
    """MCP: not read-only and possibly destructive, unless it says otherwise; nothing said is nothing known."""
    hints = _object(annotations)
    if hints.get("readOnlyHint") is True:
        return "reads"
    if "readOnlyHint" not in hints and "destructiveHint" not in hints:
        return None
    return "writes" if hints.get("destructiveHint") is False else "destroys"


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def require_tool(client: ToolClient, tools: Sequence[ToolInfo], name: str) -> ToolInfo:
    """The tool with this name or id; one that is held back is said to be so, and a near miss names the nearest."""
    found = find_tool(tools, name)
    if found:
        return found
    reason = client.unavailable_reason(name)
    if reason:
        raise CommandError(reason)
    near = closest_name(tools, name)
    hint = f"did you mean {near!r}?" if near else "see the names with 'toolhall list'"
    raise CommandError(f"there is no tool {name!r}; {hint}")


_REVISIONS = tuple(f"mcp@{name}" for name in REVISIONS)
_DIALECTS = (*_REVISIONS, "machine", "hub", "oxp", "openapi", "openai", "anthropic", "gemini")


class DialectViews(msgspec.Struct, frozen=True):
    """A tool, how each dialect shows it, and what it cannot say."""

    tool: ToolInfo
    views: dict[str, JsonObject]
    losses: dict[str, list[Loss]]

    @property
    def revisions(self) -> dict[str, JsonObject]:
        """How the revisions of MCP show it, which can be compared member by member."""
        return {dialect: view for dialect, view in self.views.items() if dialect in _REVISIONS}

    @property
    def other_dialects(self) -> dict[str, JsonObject]:
        """How every other dialect shows it."""
        return {dialect: view for dialect, view in self.views.items() if dialect not in _REVISIONS}

    def differences(self) -> list[JsonObject]:
        """The members that not every revision of MCP shows alike; one that leaves it out has no value there."""
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
        """Whether every revision of MCP shows this member alike."""
        return len({encode(view[member]) if member in view else b"" for view in self.revisions.values()}) == 1

    def document(self) -> JsonObject:
        """What `inspect --json` prints."""
        extra = {
            name: getattr(self.tool, name) for name in ("annotations", "tags", "timeout", "requirements", "versions")
        }
        shown = {"views": self.views, "losses": self.losses, "differences": self.differences()}
        return {**self.tool.summary(), **extra, **shown}


def collect_views(client: ToolClient, offers: list[ToolInfo]) -> list[DialectViews]:
    """These tools, each with every view of it that the source has."""
    return [_views_of(client, offer) for offer in offers]


def _views_of(source: ToolClient, offer: ToolInfo) -> DialectViews:
    found = DialectViews(offer, {}, {})
    for dialect in _DIALECTS:
        try:
            written = source.render(dialect, offer)
        except CommandError:  # an older or a newer server
            continue
        if written.documents:
            found.views[dialect] = written.documents[0]
            found.losses[dialect] = written.losses
    return found
