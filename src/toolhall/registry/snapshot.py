"""Snapshot: all tools, resources and prompts at one moment, found by name and version, listed in pages; immutable.

Each kind has a Listing of its own; the snapshot itself is that of the tools. A bare name means the preferred version of
a tool, which is the newest unless a pin says otherwise. Cursors of ToolPages survive a change of the list. A Shortlist
chooses the tools that MCP clients are shown.
"""

import base64
import binascii
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Protocol

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.authoring.file_source import FileSource
from toolhall.contracts.digest import compute_digests
from toolhall.model.errors import Broken, Malformed
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, ToolPage
from toolhall.model.names import SEARCH_TOOL, parse_version_range, precedence, published_name
from toolhall.model.requirements import Requirements, requirements_from_json
from toolhall.model.tool import EFFECT_ANNOTATIONS, Kind, Tool
from toolhall.model.uri_template import UriTemplate
from toolhall.registry.uri_index import UriIndex, UriMatch
from toolhall.schema.defaults import Bind
from toolhall.schema.text_values import ReadTexts, text_choices, text_reader
from toolhall.schema.validator import Validator

_log = logging.getLogger("toolhall.registry")
SKILLS_PER_PAGE = 20  # each has up to 512 digests


class Runner(Protocol):
    """Runs the body of a tool: in this process, in a worker process, or on a tool server."""

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Run the tool and return its value, or raise its exception; pauses the deadline while it asks a person."""
        ...


class Entry(msgspec.Struct, frozen=True, dict=True):
    """A served tool with its compiled validators and its runner."""

    tool: Tool
    runner: Runner
    input_validator: Validator
    output_validator: Validator | None
    id: str  # str(tool.id), computed once
    is_interactive: bool = True  # whether it can send events or questions to its caller while it runs
    requirements: Requirements | None = None  # None: no secrets or accounts
    bind: Bind | None = None  # how its function takes arguments; None: not a function of this process
    code_sha256: str = ""  # of the function's code, if it runs in this process
    uri_template: UriTemplate | None = None  # of a resource
    read_texts: ReadTexts | None = None  # turns texts of a URI or of a prompt's arguments into values
    completions: Mapping[str, "CompletionRunner | tuple[str, ...]"] = {}  # by argument: a function, or all choices
    files: FileSource | None = None  # of a folder or a skill, which are resources of its template
    held: str | None = None  # why no call of it is let through, although it is listed
    next_input: Validator | None = None  # of a newer definition that waits for a look: arguments must fit it as well

    @cached_property
    def as_tool(self) -> "Entry":
        """The entry by which a resource is listed among the tools; a call of it is a read, see ResourceTools."""
        tool, info = self.tool, self.tool.resource
        if info is None:
            raise TypeError(f"{self.id} is no resource")
        listed = msgspec.structs.replace(
            tool,
            name=published_name(tool.id.toolkit, tool.id.tool),
            stated=None,
            annotations=EFFECT_ANNOTATIONS["reads"],
            remainder=None,
            resource=msgspec.structs.replace(info, as_tool=True),
        )
        return msgspec.structs.replace(self, tool=listed, runner=_ReadInstead(), read_texts=None, completions={})

    @cached_property
    def definition_sha256(self) -> str:
        """Digest of the whole definition, computed on the first call.

        It is the SHA-256 of the two digests that a lockfile has of the tool, `shown` and `contract`, each on a line.
        """
        found = compute_digests(self.tool)
        return hashlib.sha256(f"{found.shown}\n{found.contract}\n".encode()).hexdigest()


class _ReadInstead:
    """The runner of a resource that is listed among the tools, which never runs: a call of it is a read."""

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:  # noqa: ARG002
        raise Broken(detail=f"{tool.id} was called, and not read")


class CompletionRunner(msgspec.Struct, frozen=True):
    """A function that completes an argument; one that takes what was typed chooses by itself what fits."""

    runner: Runner
    takes_typed: bool


_NO_COMPLETERS: Mapping[str, CompletionRunner] = {}


def compile_entry(
    tool: Tool,
    runner: Runner,
    *,
    known_good: bool = False,
    bind: Bind | None = None,
    code_sha256: str = "",
    completers: Mapping[str, CompletionRunner] = _NO_COMPLETERS,
) -> Entry:
    """Compile a tool's validators once, at registration; raises BadSchema. `known_good` skips the schema checks.

    `completers` are functions of this process; a runner with `completion_runner` completes what the tool declares.
    """
    output, uri = tool.output.schema, tool.resource
    is_texts = tool.kind != "tool"
    if is_texts and not completers and (completion_runner := getattr(runner, "completion_runner", None)):
        declared = () if (info := tool.resource or tool.prompt) is None else info.completes
        completers = {name: CompletionRunner(completion_runner(name), takes_typed=True) for name in declared}
    return Entry(
        tool=tool,
        runner=runner,
        input_validator=Validator(tool.input, known_good=known_good),
        output_validator=None if output is None else Validator(output, known_good=known_good),
        id=str(tool.id),
        is_interactive=getattr(runner, "is_interactive", True),
        requirements=requirements_from_json(tool.requirements),
        bind=bind,
        code_sha256=code_sha256,
        uri_template=None if uri is None else UriTemplate(uri.uri, any_path=uri.any_path),
        read_texts=text_reader(tool.input, json=tool.prompt is not None) if is_texts else None,
        completions={**text_choices(tool.input), **completers} if is_texts else {},
    )


def tool_key(tool: Tool) -> str:
    """Return `Toolkit.tool`, which all versions share."""
    return f"{tool.id.toolkit}.{tool.id.tool}"


def templates_as_tools(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries by which URI templates are listed among the tools."""
    for entry in entries:
        if entry.tool.kind == "resource" and entry.uri_template is not None and entry.uri_template.is_template:
            yield entry.as_tool


_NO_PREFERENCE: Mapping[str, Entry] = {}


class Listing:
    """The entries of one kind at one moment, found by name and version; immutable."""

    def __init__(
        self,
        entries: Iterable[Entry],
        page_size: int,
        *,
        shared: bool = True,
        preferred: Mapping[str, Entry] = _NO_PREFERENCE,
        names: Mapping[str, Entry] | None = None,
    ) -> None:
        """`preferred` overrides by `Toolkit.tool` which version is listed; `names` replaces the choice for all."""
        self.entries = tuple(entries)
        self.page_size = page_size
        self.shared = shared
        self._versions = _by_key(self.entries)
        newest = {key: versions[0] for key, versions in self._versions.items()} if names is None else names
        self._preferred = {**newest, **preferred}
        chosen = set(map(id, self._preferred.values()))
        self.listed = tuple(entry for entry in self.entries if id(entry) in chosen)
        self._by_name = {entry.tool.name: entry for entry in self.listed if entry.tool.kind != "resource"}
        self._by_name |= {entry.id: entry for entry in self.entries}

    @cached_property
    def pages(self) -> "ToolPages":
        """The listed entries, in pages."""
        return ToolPages((entry.tool for entry in self.listed), self.page_size, shared=self.shared)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every version of every tool, in order."""
        return tuple(entry.tool for entry in self.entries)

    def find(self, name: str) -> Entry | None:
        """Find by published name (of the listed version), id, or id with a version range: `Kit.tool@^1.2`."""
        found = self._by_name.get(name)
        if found is None and "." in name:
            key, _, version = name.rpartition("@")
            found = self.resolve(name, None) or (self.resolve(key, version) if key else None)
        return found

    def resolve(self, key: str, version: str | None) -> Entry | None:
        """Return the newest version of `Toolkit.tool` in a version range; without a range, the listed version."""
        if version is None:
            return self._preferred.get(key)
        version_range = parse_version_range(version)
        versions = self._versions.get(key, ())
        return next((entry for entry in versions if version_range.accepts(entry.tool.id.version)), None)

    def kept_names(self, kept: Iterable[Entry]) -> Mapping[str, Entry]:
        """Return which versions are listed of those that are kept: a hidden one's name finds no other version."""
        kept_ids = set(map(id, kept))
        return {key: entry for key, entry in self._preferred.items() if id(entry) in kept_ids}

    def page(self, cursor: str | None) -> ToolPage:
        """Return the page of a cursor; raises Malformed for an unknown cursor."""
        return self.pages.page(cursor)


class ResourceListing(Listing):
    """All resources and templates at one moment, found by URI, and the files of folders as they were then."""

    def __init__(
        self,
        entries: Iterable[Entry],
        page_size: int,
        *,
        shared: bool = True,
        preferred: Mapping[str, Entry] = _NO_PREFERENCE,
        names: Mapping[str, Entry] | None = None,
    ) -> None:
        super().__init__(entries, page_size, shared=shared, preferred=preferred, names=names)
        files = {entry.id: entry.files.listed for entry in self.listed if entry.files is not None}
        stated = ((entry.id, entry.tool, entry.tool.resource) for entry in self.listed)
        self.shown = tuple(
            each
            for entry_id, tool, info in stated
            for each in ((tool, *files.get(entry_id, ())) if info and info.listed else files.get(entry_id, ()))
        )

    @cached_property
    def skills(self) -> Mapping[str, Tool]:
        """The SKILL.md of each skill, by URI."""
        return {uri_of(tool): tool for tool in self.shown if tool.resource and tool.resource.skill}

    @cached_property
    def skill_pages(self) -> "ToolPages":
        """The SKILL.md of each skill, in pages."""
        return ToolPages(self.skills.values(), min(self.page_size, SKILLS_PER_PAGE), shared=self.shared, key=uri_of)

    @property
    def has_skills(self) -> bool:
        """Whether there is any skill, listed now or not."""
        return any(entry.files is not None and entry.files.is_skill for entry in self.listed)

    @cached_property
    def pages(self) -> "ToolPages":
        """The resources that are listed, without templates, in pages."""
        return self._pages(templates=False)

    @cached_property
    def template_pages(self) -> "ToolPages":
        """The templates that are listed, in pages."""
        return self._pages(templates=True)

    @cached_property
    def all_pages(self) -> "ToolPages":
        """The resources and templates that are listed, in pages."""
        return self._pages(templates=None)

    @cached_property
    def _uris(self) -> UriIndex[Entry]:
        stated = [(entry.uri_template, entry) for entry in self.listed if entry.uri_template is not None]
        exact = {template.text: entry for template, entry in stated if not template.is_template}
        return UriIndex(exact, [(template, entry) for template, entry in stated if template.is_template])

    def match(self, uri: str) -> UriMatch[Entry] | None:
        """Return what serves a URI, and the values of its variables: an exact one, else the closest template."""
        return self._uris.find(uri)

    def find_template(self, uri: str) -> Entry | None:
        """Return what is declared by exactly this URI or URI template."""
        return next((each for each in self.listed if each.tool.resource and each.tool.resource.uri == uri), None)

    def _pages(self, *, templates: bool | None) -> "ToolPages":
        listed = (tool for tool in self.shown if tool.resource and templates in (None, tool.resource.is_template))
        return ToolPages(listed, self.page_size, shared=self.shared, key=uri_of)


class Snapshot(Listing):
    """All tools at one moment, and all resources and prompts beside them; immutable.

    A change to the registry makes a new snapshot.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        page_size: int,
        *,
        shared: bool = True,
        preferred: Mapping[str, Entry] = _NO_PREFERENCE,
        names: Mapping[str, Entry] | None = None,
        beside: "tuple[ResourceListing, Listing] | None" = None,
    ) -> None:
        """`beside` are the listings of resources and prompts, if those are not among the entries."""
        given = tuple(entries)
        of_kind: dict[Kind, list[Entry]] = {"tool": [], "resource": [], "prompt": []}
        for entry in given:
            of_kind[entry.tool.kind].append(entry)
        super().__init__(of_kind["tool"], page_size, shared=shared, preferred=preferred, names=names)
        self.resources, self.prompts = beside or (
            ResourceListing(of_kind["resource"], page_size, shared=shared),
            Listing(of_kind["prompt"], page_size, shared=shared),
        )
        own = tuple(entry for entry in given if entry.tool.resource is None or not entry.tool.resource.as_tool)
        self.all_entries = own if beside is None else (*own, *self.resources.entries, *self.prompts.entries)
        self.repeats_in_headers = any(entry.tool.header_parameters for entry in self.entries)
        self.encoded: dict[str, bytes] = {}  # whole lists of dialects without pages, encoded once

    @cached_property
    def file_sources(self) -> tuple[FileSource, ...]:
        """What serves files: folders and skills."""
        return tuple(entry.files for entry in self.resources.entries if entry.files is not None)

    @cached_property
    def has_tasks(self) -> bool:
        """Whether any tool's calls may be tasks."""
        return any(entry.tool.task is not None for entry in self.entries)

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of which there is anything."""
        return frozenset(entry.tool.kind for entry in self.all_entries)

    def of_kind(self, kind: Kind) -> Listing:
        """Return the listing of tools (this snapshot), of resources or of prompts."""
        return self if kind == "tool" else self.resources if kind == "resource" else self.prompts

    def find_any(self, name: str) -> Entry | None:
        """Find a tool by name or id, a resource by id, or a prompt by name or id."""
        found = self.find(name)
        if found is not None and found.tool.resource is not None:
            name, found = found.id, None  # a template that is listed among the tools
        return found or self.resources.find(name) or self.prompts.find(name)

    def filtered(self, keep: Callable[[Tool], bool]) -> "Snapshot":
        """Return only what a caller may see; a hidden version's published name finds no other version."""

        def kept(listing: Listing) -> tuple[list[Entry], Mapping[str, Entry]]:
            entries = [entry for entry in listing.entries if keep(entry.tool)]
            return entries, listing.kept_names(entries)

        size = self.page_size
        resources, resource_names = kept(self.resources)
        prompts, prompt_names = kept(self.prompts)
        beside = (
            ResourceListing(resources, size, shared=False, names=resource_names),
            Listing(prompts, size, shared=False, names=prompt_names),
        )
        tools, names = kept(self)
        return Snapshot(tools, size, shared=False, names=names, beside=beside)

    def with_preferred(self, preferred: Mapping[str, Entry]) -> "Snapshot":
        """Return a snapshot in which these versions have the published names, instead of the newest ones."""
        if not preferred:
            return self
        of_kind: dict[Kind, dict[str, Entry]] = {"tool": {}, "resource": {}, "prompt": {}}
        for key, entry in preferred.items():
            of_kind[entry.tool.kind][key] = entry
        resources, prompts = self.resources, self.prompts
        if of_kind["resource"]:
            resources = ResourceListing(resources.entries, self.page_size, preferred=of_kind["resource"])
        if of_kind["prompt"]:
            prompts = Listing(prompts.entries, self.page_size, preferred=of_kind["prompt"])
        return Snapshot(self.entries, self.page_size, preferred=of_kind["tool"], beside=(resources, prompts))

    def with_beside(self, other: "Snapshot") -> "Snapshot":
        """Return these tools with the resources and prompts of another snapshot of the same entries."""
        if other.resources is self.resources and other.prompts is self.prompts:
            return self
        return Snapshot(self.all_entries, self.page_size, beside=(other.resources, other.prompts))


def _name_of(tool: Tool) -> str:
    return tool.name


def uri_of(tool: Tool) -> str:
    """Return the URI of a resource."""
    return tool.name if tool.resource is None else tool.resource.uri


class ToolPages:
    """A list of tools, resources or prompts with distinct keys, cut into pages; immutable."""

    def __init__(
        self, tools: Iterable[Tool], size: int, *, shared: bool, key: Callable[[Tool], str] = _name_of
    ) -> None:
        self.tools = tuple(tools)
        self._size = size
        self._shared = shared
        self._key = key
        self._positions = {key(tool): position for position, tool in enumerate(self.tools)}
        self._cache: dict[int, ToolPage] = {}

    def page(self, cursor: str | None) -> ToolPage:
        """Return the page of a cursor; raises Malformed for an unknown cursor."""
        start = self._start(cursor) if cursor else 0
        page = self._cache.get(start)
        if page is None:
            # Cursors may be forged: only pages at regular boundaries are cached.
            page = self._build(start)
            if start % self._size == 0:
                self._cache[start] = page
        return page

    def _build(self, start: int) -> ToolPage:
        end = start + self._size
        chosen = self.tools[start:end]
        more = end < len(self.tools)
        return ToolPage(chosen, _cursor(end - 1, self._key(chosen[-1])) if more else None, self._shared)

    def _start(self, cursor: str) -> int:
        """Return the position after the tool that a cursor names; if that tool is gone, its old position."""
        try:
            position, _, last = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
            known = self._positions.get(last)
            start = int(position) if known is None else known + 1
        except (ValueError, binascii.Error):
            raise Malformed("unknown cursor: send the nextCursor of the page before, or none") from None
        return max(0, min(start, len(self.tools)))


def _cursor(position: int, last: str) -> str:
    return base64.urlsafe_b64encode(f"{position}:{last}".encode()).decode()


def _by_key(entries: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """Return the versions of each tool, newest first."""
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(tool_key(entry.tool), []).append(entry)
    for same_tool in versions.values():
        if len(same_tool) > 1:
            same_tool.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
    return versions


class Shortlist:
    """Chooses the listed tools: every tool in its newest version, unless tools are pinned or `search` is set.

    A pin with a version or range (`Kit.tool@^1`) decides which version the published name means; of several pins, the
    first that matches. With `search`, only the search tool and pinned tools are listed; all others can be called still.
    """

    def __init__(self, pinned: Iterable[str] = (), *, search: bool = False) -> None:
        # Pinned by version: a tool that claims to be a newer version of the search tool must not replace it.
        self.pins = (*([str(SEARCH_TOOL)] if search else []), *pinned)
        self._search = search
        self._warned: set[str] = set()
        self._cached: ListedTools | None = None

    def for_snapshot(self, snapshot: Snapshot) -> "ListedTools":
        """Return the listed tools of a snapshot; cached for the latest one."""
        cached = self._cached
        if cached is None or cached.snapshot is not snapshot:
            cached = self._cached = self._build(snapshot)
        return cached

    def _build(self, snapshot: Snapshot) -> "ListedTools":
        if not self.pins:
            return ListedTools(snapshot, snapshot)
        found = [(pin, entry) for pin in self.pins if (entry := snapshot.find_any(pin))]
        if snapshot.entries:
            self._warn_missing_pins({pin for pin, _ in found})
        preferred: dict[str, Entry] = {}
        for pin, entry in found:
            if pin not in (entry.tool.name, tool_key(entry.tool)):  # otherwise the pin names no version
                preferred.setdefault(tool_key(entry.tool), entry)
        other = {
            key: entry
            for key, entry in preferred.items()
            if snapshot.of_kind(entry.tool.kind).resolve(key, None) is not entry
        }
        keys = {tool_key(entry.tool) for _, entry in found} if self._search else None
        return ListedTools(snapshot, snapshot.with_preferred(other), keys)

    def _warn_missing_pins(self, found: set[str]) -> None:
        """Warn once about each pin that matches no tool: it may be misspelled."""
        for pin in self.pins:
            if pin not in found and pin not in self._warned:
                self._warned.add(pin)
                _log.warning("the pin %r matches no tool; check its name and version", pin)


class ListedTools:
    """The lists of one snapshot, whole or per caller."""

    def __init__(self, snapshot: Snapshot, names: Snapshot, keys: set[str] | None = None) -> None:
        """`names` resolves published names; `keys` are the listed tools (`Toolkit.tool`), None for all."""
        self.snapshot = snapshot
        self.names = names
        self.with_pinned_beside = snapshot.with_beside(names)  # where a bare tool name means its newest version
        self._keys = keys
        self._by_name: dict[bool, dict[str, Tool]] = {}
        self._pages: dict[bool, ToolPages] = {} if keys is not None else {False: names.pages}

    def tools_by_name(self, *, versions: bool = False) -> dict[str, Tool]:
        """Return the listed tools by listed name; with `versions` all versions, the not preferred ones by id."""
        if versions not in self._by_name:
            entries = self.names.entries if versions else self.names.listed
            listed = (entry for entry in entries if self._keys is None or tool_key(entry.tool) in self._keys)
            self._by_name[versions] = {self._name(entry): entry.tool for entry in listed}
        return self._by_name[versions]

    def pages(self, *, versions: bool = False) -> ToolPages:
        """Return the pages for callers that may see every tool; cached."""
        if versions not in self._pages:
            self._pages[versions] = self._to_pages(self.tools_by_name(versions=versions), shared=True)
        return self._pages[versions]

    def pages_for(self, can_see: Callable[[Tool], bool], *, versions: bool = False) -> ToolPages:
        """Return the pages for a caller that may not see every tool.

        If the preferred version is hidden, its published name is not listed: it would not reach another version.
        """
        return self._to_pages(
            {name: tool for name, tool in self.tools_by_name(versions=versions).items() if can_see(tool)}
        )

    def _name(self, entry: Entry) -> str:
        return entry.tool.name if self.names.resolve(tool_key(entry.tool), None) is entry else entry.id

    def _to_pages(self, by_name: dict[str, Tool], *, shared: bool = False) -> ToolPages:
        tools = (with_listed_name(name, tool) for name, tool in by_name.items())
        return ToolPages(tools, self.names.page_size, shared=shared)


def with_listed_name(name: str, tool: Tool) -> Tool:
    """Return the tool under its listed name."""
    return tool if tool.name == name else msgspec.structs.replace(tool, name=name)
