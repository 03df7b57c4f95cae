"""Definitions of upstreams: ForeignDefinition, one read from a list; DefinitionReader; identified, as the hall's tool.

Each definition is read alone: one that cannot be read is withheld with its findings, and the others go on. Reading
depends on nothing but what the upstream wrote, and is remembered by the bytes, because most lists do not change. What
the hall says of a definition (its id and names, level and requirements) is added after that, from the settings.
"""

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.base import Catalog
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.mcp.catalog import ID_KEY, NAME_KEY
from toolhall.dialects.mcp.mending import mend_definition
from toolhall.dialects.mcp.protocol import REVISIONS
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.names import ToolId, safe_name
from toolhall.model.requirements import AccountRequirement, Requirements, requirements_to_json
from toolhall.model.text import clean_text
from toolhall.model.tool import Kind, Task, Tool
from toolhall.model.upstream import Upstream, UpstreamListing, UpstreamSettings
from toolhall.registration.records import read_external_tools
from toolhall.schema.cost import BadSchema

FIRST_VERSION = "1.0.0"
MAX_DEFINITIONS = 20_000  # of one upstream, of all kinds together
MAX_DEFINITION_BYTES = 256 * 1024
MAX_UPSTREAM_BYTES = 64 * 1024 * 1024  # of all definitions of one upstream
MAX_SHOWN_NAME = 256
DIALECT = "mcp"
# Of a tool that runs as a task only: so it does here for clients that have tasks, and the hall waits for the others.
UPSTREAM_TASK = Task(again=False)
WITHHELD_RULE = "upstream/withheld"
_MAX_FINDINGS = 20  # that are kept of one definition
_HASH_LENGTH = 8


class UpstreamFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What was mended in one definition of an upstream, or why it is withheld."""

    kind: Kind
    name: str  # by which the upstream knows it, cleaned
    id: str | None = None  # of the tool, if it has one
    findings: tuple[Finding, ...]
    withheld: bool


class ForeignDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One definition as it was read; `tool` is None if it could not be, and `findings` say why."""

    kind: Kind
    upstream_name: str  # the name of a tool or prompt, the URI or URI template of a resource
    stated: str  # the name in its document
    document: JsonObject = {}  # mended
    tool: Tool | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def identity(self) -> tuple[Kind, str]:
        """What makes it the same definition in the next list."""
        return self.kind, self.upstream_name

    def finding(self, *, tool_id: str | None = None, refused: str | None = None) -> UpstreamFinding:
        """What to tell of it; `refused` is why it is withheld although it could be read."""
        more = () if refused is None else (Finding("", WITHHELD_RULE, refused),)
        return UpstreamFinding(
            kind=self.kind,
            name=shown_name(self.upstream_name or self.stated),
            id=tool_id,
            findings=(*self.findings, *more),
            withheld=self.tool is None or refused is not None,
        )


class DefinitionReader:
    """Reads the definitions of one upstream; those that have not changed since the last list are not read again."""

    def __init__(self) -> None:
        self._last: dict[bytes, ForeignDefinition] = {}
        self._now: dict[bytes, ForeignDefinition] = {}

    def read(self, listing: UpstreamListing) -> Iterator[ForeignDefinition]:
        """Yield each definition of the list; the iteration may be interrupted between two."""
        revision = REVISIONS.get(listing.revision)
        any_output = revision is not None and revision.any_output
        self._now, size = {}, 0
        for kind, stated in definitions_of(listing):
            encoded = _encoded(stated)
            size += len(encoded or b"")
            if size > MAX_UPSTREAM_BYTES:
                yield _refused(
                    _bare(stated, kind), f"the definitions of one upstream have at most {MAX_UPSTREAM_BYTES} bytes"
                )
                continue
            key = hashlib.sha256(encoded or b"", usedforsecurity=False).digest() + kind.encode() + bytes([any_output])
            found = self._last.get(key) or self._now.get(key)
            if found is None:
                found = read_foreign(stated, encoded, kind, any_output=any_output)
            self._now[key] = found
            yield found
        self._last, self._now = self._now, {}


def definitions_of(listing: UpstreamListing) -> Iterator[tuple[Kind, Json]]:
    """Every definition of a list with its kind: tools first, whose names are plainest."""
    for tool in listing.tools:
        yield "tool", tool
    for prompt in listing.prompts:
        yield "prompt", prompt
    for resource in (*listing.resources, *listing.templates):
        yield "resource", resource


def read_foreign(stated: Json, encoded: bytes | None, kind: Kind, *, any_output: bool) -> ForeignDefinition:
    """Read one definition, mended; what is wrong with it is in its findings."""
    bare = _bare(stated, kind)
    if not isinstance(stated, dict) or encoded is None or len(encoded) > MAX_DEFINITION_BYTES:
        return _refused(bare, f"a definition is a JSON object of at most {MAX_DEFINITION_BYTES} bytes")
    findings: tuple[Finding, ...] = ()
    try:
        strict_json.decode(encoded)  # whoever reads the stored document holds it to this
        mended, findings = mend_definition(stated, kind, any_output=any_output)
        (tool,) = read_external_tools(mended, _catalog())
    except BadDocument as bad:
        return _refused(bare, "", (*findings, *bad.findings))
    except (Malformed, BadSchema, RecursionError) as bad:
        return _refused(bare, f"it cannot be read: {bad}"[:200], findings)
    name, upstream_name = _names(mended, kind)
    if tool.kind != kind:
        return _refused(bare, f"it was listed as a {kind}, and is written as a {tool.kind}", findings)
    if _needs_task(stated):
        tool = msgspec.structs.replace(tool, task=UPSTREAM_TASK)
    return ForeignDefinition(
        kind=kind,
        upstream_name=upstream_name,
        stated=name,
        document=mended,
        tool=tool,
        findings=findings[:_MAX_FINDINGS],
    )


def _bare(stated: Json, kind: Kind) -> ForeignDefinition:
    name, upstream_name = _names(stated, kind)
    return ForeignDefinition(kind=kind, upstream_name=upstream_name, stated=name)


def _catalog() -> Catalog:
    from toolhall.dialects.catalogs import readable_catalog  # lazy: every dialect, only where definitions are read

    return readable_catalog(DIALECT)


def _encoded(stated: Json) -> bytes | None:
    try:
        return encode(stated)
    except (RecursionError, TypeError, ValueError, UnicodeEncodeError):
        return None


def _refused(bare: ForeignDefinition, why: str, findings: tuple[Finding, ...] = ()) -> ForeignDefinition:
    more = (Finding("", WITHHELD_RULE, why),) if why else ()
    return msgspec.structs.replace(bare, findings=(*findings, *more)[:_MAX_FINDINGS])


def _names(stated: Json, kind: Kind) -> tuple[str, str]:
    """The name in the document, and that by which the upstream is asked."""
    if not isinstance(stated, dict):
        return "", ""
    name = stated.get("name")
    name = name if isinstance(name, str) else ""
    if kind != "resource":
        return name, name
    uri = stated.get("uriTemplate", stated.get("uri"))
    return name, uri if isinstance(uri, str) else ""


def _needs_task(stated: JsonObject) -> bool:
    execution = stated.get("execution")
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


def shown_name(name: str) -> str:
    """A name of somebody else, cleaned and cut to be shown."""
    return clean_text(name[:MAX_SHOWN_NAME])


def is_selected(definition: ForeignDefinition, settings: UpstreamSettings) -> bool:
    """Whether `only` and `except` of the settings let a definition in; they name what the upstream does."""
    names = {definition.stated, definition.upstream_name}

    def matches(globs: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs for name in names)

    return (not settings.only or matches(settings.only)) and not matches(settings.except_)


def own_name(definition: ForeignDefinition, settings: UpstreamSettings) -> str:
    """The name of the tool within its toolkit: as `rename` says, else the upstream's own, made valid for every id."""
    renamed = settings.rename.get(definition.stated) if definition.kind != "resource" else None
    return renamed or safe_name(definition.stated).replace(".", "_")


def other_name(name: str, definition: ForeignDefinition) -> str:
    """The name for a definition whose own one another definition of the upstream has; always the same."""
    identity = f"{definition.kind}:{definition.upstream_name}".encode(errors="replace")
    return f"{name[: 64 - 1 - _HASH_LENGTH]}_{hashlib.sha256(identity).hexdigest()[:_HASH_LENGTH]}"


def qualified_uri(uri: str, upstream: str) -> str:
    """The URI with the upstream's name in it, for one that another toolkit has."""
    scheme, slashes, rest = uri.partition("://")
    if not slashes:
        scheme, _, rest = uri.partition(":")
    return f"{scheme}://{upstream}/{rest.lstrip('/')}"


def identified(
    definition: ForeignDefinition,
    upstream: Upstream,
    name: str,
    *,
    uri: str | None = None,
    completes: tuple[str, ...] = (),
) -> Tool:
    """The tool that the hall makes of a definition: ids, names, level, timeout and requirements are the hall's own.

    `completes` are the arguments of a prompt, or the variables of a template, that its upstream completes.
    """
    tool, settings = definition.tool, upstream.settings
    if tool is None:
        raise TypeError(f"{definition.upstream_name!r} could not be read")
    qualified = f"{upstream.name}_{definition.stated}"
    is_renamed = settings.rename.get(definition.stated) == name
    resource = tool.resource
    if resource is not None:
        resource = msgspec.structs.replace(resource, uri=uri or resource.uri, completes=completes)
    return msgspec.structs.replace(
        tool,
        id=ToolId(upstream.name, name, FIRST_VERSION),
        name=safe_name(f"{upstream.name}_{name}"),
        # Names are compared by what a model reads, so that no tool looks like another one.
        stated=None if is_renamed or definition.stated == name or definition.kind == "resource" else qualified,
        title=tool.title if definition.kind == "tool" else tool.title or definition.stated,
        level=settings.level,
        timeout=settings.timeout,
        requirements=requirements_of(upstream),
        upstream_name=definition.upstream_name,
        resource=resource,
        prompt=None if tool.prompt is None else msgspec.structs.replace(tool.prompt, completes=completes),
    )


def completed_arguments(definition: ForeignDefinition, known: Tool | None, *, completes: bool) -> tuple[str, ...]:
    """The arguments that are declared to be completed: every one, if the server completes (MCP does not say which).

    A server that does not say so any more takes nothing back: it then completes nothing, which breaks nobody.
    """
    tool = definition.tool
    names = () if tool is None or tool.kind == "tool" else tuple(tool.input.get("properties", {}))
    if completes:
        return names
    info = None if known is None else known.resource or known.prompt
    return () if info is None else tuple(name for name in info.completes if name in names)


def requirements_of(upstream: Upstream) -> JsonObject | None:
    """What every tool of an upstream requires: the secrets in its headers, and the user's account."""
    settings = upstream.settings
    accounts = (AccountRequirement(f"upstream:{upstream.name}"),) if settings.auth == "oauth" else ()
    return requirements_to_json(Requirements(accounts, settings.header_secrets))


def document_of(definition: ForeignDefinition, tool: Tool) -> bytes:
    """The document that is kept of a tool and reviewed: its own alone, mended, with the hall's id and name."""
    meta = dict(definition.document.get("_meta") or {}) | {ID_KEY: str(tool.id), NAME_KEY: tool.name}
    document: JsonObject = {**definition.document, "name": tool.name, "_meta": meta}
    if tool.resource is not None:
        document["uriTemplate" if tool.resource.is_template else "uri"] = tool.resource.uri
    return encode(document)
