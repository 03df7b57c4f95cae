"""Tool records: from definitions to what the store keeps and back, and RecordIndex over all of them.

A record holds the document as it came, the tool and its digests. `load_records` checks the tool against the digests:
what was changed in the store comes back quarantined.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from toolhall.contracts.digest import Digests, compute_digests, compute_legacy_digests
from toolhall.contracts.semver import ChangeKind
from toolhall.dialects import strict_json
from toolhall.dialects.base import Catalog
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.names import newest_version
from toolhall.model.tool import Deprecation, HeaderParameter, Tool
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate
from toolhall.registry.registry import NameClaims
from toolhall.schema.annotations import header_parameters
from toolhall.schema.cost import BadSchema
from toolhall.schema.keywords import HEADER_KEYWORD, may_contain
from toolhall.stores.tools import ToolOrigin, ToolRecord, ToolState

MAX_TOOLS = 100_000
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024  # of all documents together; the tools of one document share it
CODE_DIALECT = "toolhall"  # of tools defined in code: their document is the Tool itself
_decode = msgspec.json.Decoder(Tool).decode
HEADER_RULE = "header/refused"
URI_RULE = "uri/refused"
_OWN_META_PREFIX = "/_meta/dev.toolhall~1"
_log = logging.getLogger("toolhall.registrar")


class TamperedRecord(Exception):
    """A stored record is not what was registered; the message is for the log."""


class RegistrationSource(msgspec.Struct, frozen=True):
    """The origin, author and time of a registration; `behaviour` is a change that the definition cannot show."""

    origin: ToolOrigin
    by: str
    at: float
    detail: str = ""
    behaviour: ChangeKind | None = None


@dataclass(frozen=True)
class DefinitionDocument:
    """A document with tool definitions, as it came; parsed once."""

    body: Json
    dialect: str
    detail: str = ""  # the file it is from

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the document; raises BadDocument with every finding."""
        return read_definition(self.body, self.dialect)


class IndexedTool(msgspec.Struct, frozen=True):
    """A record and its decoded tool."""

    record: ToolRecord
    tool: Tool


class RecordIndex:
    """All records in memory, indexed by id, toolkit and `Toolkit.tool`; counts documents and name claims."""

    def __init__(self) -> None:
        self._by_id: dict[str, IndexedTool] = {}
        self._by_toolkit: dict[str, dict[str, IndexedTool]] = {}
        self._by_key: dict[str, dict[str, IndexedTool]] = {}
        self._documents: Counter[bytes] = Counter()
        self._bytes = 0
        self.changes = 0  # how often a record was put or removed: what is computed from all of them is kept until then
        self.name_claims = NameClaims()  # of tools from outside

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._by_id

    def is_from_code(self, tool_id: str) -> bool:
        """Return whether the record of this id is of a tool defined in code."""
        listed = self._by_id.get(tool_id)
        return listed is not None and listed.record.origin == "code"

    def tool_states(self, toolkit: str, version: str) -> dict[str, str]:
        """Return the states of all tools of a toolkit's version, by id."""
        return {
            each.record.id: each.record.state for each in self.in_toolkit(toolkit) if each.record.version == version
        }

    def owners(self, toolkit: str) -> frozenset[str]:
        """Return everyone who has registered a tool of the toolkit."""
        return frozenset(listed.record.by for listed in self.in_toolkit(toolkit))

    @property
    def all(self) -> tuple[IndexedTool, ...]:
        """All records, in the order of registration."""
        return tuple(self._by_id.values())

    def get(self, name: str) -> IndexedTool | None:
        """Return a record by id, or by `Toolkit.tool`, which means its newest version."""
        return self._by_id.get(name) or self._newest(name)

    def in_toolkit(self, toolkit: str) -> list[IndexedTool]:
        """Return every version of every tool of a toolkit."""
        return list(self._by_toolkit.get(toolkit, {}).values())

    def versions(self, key: str) -> list[IndexedTool]:
        """Return every version of `Toolkit.tool`."""
        return list(self._by_key.get(key, {}).values())

    def put(self, record: ToolRecord, tool: Tool) -> None:
        """Add or replace a record."""
        self.changes += 1
        if record.id in self._by_id:
            self._release_claims(record.id)
        listed = self._by_id[record.id] = IndexedTool(record, tool)
        for index, name in self._indexes(record):
            index.setdefault(name, {})[record.id] = listed
        self._count_document(record, 1)
        if record.origin != "code":
            self.name_claims.claim(tool)

    def put_all(self, tools: Iterable[IndexedTool]) -> None:
        """Add or replace records."""
        for listed in tools:
            self.put(listed.record, listed.tool)

    def remove(self, tool_id: str) -> None:
        """Remove a record."""
        self.changes += 1
        self._release_claims(tool_id)
        for index, name in self._indexes(self._by_id.pop(tool_id).record):
            del index[name][tool_id]
            if not index[name]:
                del index[name]

    def check_capacity(self, count: int, size: int) -> None:
        """Raise Malformed if so many more tools, with so many bytes, exceed a limit."""
        if len(self._by_id) + count > MAX_TOOLS:
            raise Malformed(f"{MAX_TOOLS} tools are registered at most; remove some first")
        if self._bytes + size > MAX_DOCUMENT_BYTES:
            raise Malformed(f"what is registered would take over {MAX_DOCUMENT_BYTES} bytes; remove some first")

    def _indexes(self, record: ToolRecord) -> tuple[tuple[dict[str, dict[str, IndexedTool]], str], ...]:
        return (self._by_toolkit, record.toolkit), (self._by_key, record.key)

    def _release_claims(self, tool_id: str) -> None:
        listed = self._by_id[tool_id]
        if listed.record.origin != "code":
            self.name_claims.release(listed.tool)
        self._count_document(listed.record, -1)

    def _count_document(self, record: ToolRecord, change: int) -> None:
        """Count the bytes of a document once, however many tools share it."""
        before = self._documents[record.document]
        after = self._documents[record.document] = before + change
        if 0 in (before, after):
            self._bytes += change * len(record.document)
        if after == 0:
            del self._documents[record.document]

    def _newest(self, key: str) -> IndexedTool | None:
        versions = {each.record.version: each for each in self.versions(key)}
        return versions.get(newest_version(versions) or "")


def load_records(stored: Iterable[ToolRecord], index: RecordIndex) -> list[IndexedTool]:
    """Load records into the index; returns those that must be quarantined, because the store was tampered with."""
    changed: list[IndexedTool] = []
    for record in stored:
        try:
            tool = tool_from_record(record)
        except TamperedRecord as tampered:
            _log.error("%s; it is not served until somebody has looked at it", tampered)
            changed += _reread_quarantined(record)
            continue
        if record.sound:
            index.put(with_current_digests(record, tool), tool)
        else:
            _log.error("another program changed %s in the store; it is not served until somebody has looked", record.id)
            changed.append(IndexedTool(msgspec.structs.replace(record, state="quarantined"), tool))
    return changed


def _reread_quarantined(record: ToolRecord) -> list[IndexedTool]:
    """Read a tampered record's document again, quarantined; empty if that cannot be read either."""
    try:
        tool = read_definition(strict_json.decode(record.document), record.dialect)[record.number]
    except (ToolhallError, IndexError, LookupError):
        return []
    if record.dialect == CODE_DIALECT or str(tool.id) != record.id:
        return []
    found = compute_digests(tool)
    changed = msgspec.structs.replace(
        record,
        state="quarantined",
        model=msgspec.json.encode(tool),
        shown_digest=found.shown,
        contract_digest=found.contract,
    )
    return [IndexedTool(changed, tool)]


def record_for_code(tool: Tool, source: RegistrationSource) -> ToolRecord:
    """Return the record of a tool defined in code."""
    return new_record(tool, CODE_DIALECT, code_document(tool), 0, source)


def code_document(tool: Tool) -> bytes:
    """Return the document of a tool defined in code: the encoded Tool."""
    return msgspec.json.encode(tool)


def records_for_document(
    document: DefinitionDocument, tools: tuple[Tool, ...], source: RegistrationSource
) -> list[ToolRecord]:
    """Return the records of a document's tools; each contains the whole document."""
    body = encode(document.body)
    return [new_record(tool, document.dialect, body, number, source) for number, tool in enumerate(tools)]


def read_definition(document: Json, dialect: str) -> tuple[Tool, ...]:
    """Read the tools of a document in a dialect; raises BadDocument with every finding."""
    from toolhall.dialects.catalogs import readable_catalog  # lazy: every dialect, only to register

    return read_external_tools(document, readable_catalog(dialect))


def tool_from_record(record: ToolRecord) -> Tool:
    """Decode the tool of a record; raises TamperedRecord if it does not match the record's digests."""
    try:
        tool = _decode(record.model or record.document)
    except msgspec.DecodeError as error:
        raise TamperedRecord(f"{record.id} cannot be read from the store: {error}") from None
    # The digests do not cover the origin; code is trusted with more than foreign tools.
    has_identity = (str(tool.id), tool.foreign) == (record.id, record.dialect != CODE_DIALECT)
    stated = Digests(record.shown_digest, record.contract_digest)
    if not has_identity or (compute_digests(tool) != stated and compute_legacy_digests(tool) != stated):
        raise TamperedRecord(f"{record.id} is not what was registered under that id")
    return with_deprecation(tool, record)


def with_current_digests(record: ToolRecord, tool: Tool) -> ToolRecord:
    """Return the record with digests of today's algorithm, so that it can be compared with new definitions."""
    if b'"prefixItems"' not in (record.model or record.document):  # only these tools had other digests before
        return record
    found = compute_digests(tool)
    return msgspec.structs.replace(record, shown_digest=found.shown, contract_digest=found.contract)


def with_deprecation(tool: Tool, record: ToolRecord) -> Tool:
    """Return the tool with the deprecation that its record states."""
    stated = None
    if record.deprecated_at is not None:
        stated = Deprecation(since=int(record.deprecated_at), sunset=record.sunset, successor=record.successor)
    return tool if tool.deprecation == stated else msgspec.structs.replace(tool, deprecation=stated)


def new_record(tool: Tool, dialect: str, document: bytes, number: int, source: RegistrationSource) -> ToolRecord:
    """Return the record of a tool from a document; what comes from outside is quarantined."""
    digest = compute_digests(tool)
    state: ToolState = "quarantined" if tool.foreign else "active"
    return ToolRecord(
        toolkit=tool.id.toolkit,
        tool=tool.id.tool,
        version=tool.id.version,
        dialect=dialect,
        document=document,
        number=number,
        model=b"" if dialect == CODE_DIALECT else msgspec.json.encode(tool),
        state=state,
        origin=source.origin,
        origin_detail=source.detail,
        by=source.by,
        registered_at=source.at,
        changed_at=source.at,
        shown_digest=digest.shown,
        contract_digest=digest.contract,
    )


def read_external_tools(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """Read the tools of a document from outside, marked as foreign; raises BadDocument with every finding.

    Header parameters are checked, and unsafe icons are removed.
    """
    from toolhall.dialects.convert import lossless  # lazy: every dialect, only to register
    from toolhall.dialects.lint.metadata_rules import is_safe_icon  # lazy: the rules of lint

    tools = lossless.read(document, catalog)
    findings = [each for number, tool in enumerate(tools) for each in _header_findings(tool, document, catalog, number)]
    findings += [each for tool in tools for each in _template_findings(tool)]
    if findings:
        raise BadDocument(findings)
    if not all(is_safe_icon(icon) for tool in tools for icon in tool.icons):
        # Read the document again without them: otherwise the unknown members kept beside the model would restore them.
        tools = lossless.read(_without_unsafe_icons(document, tools), catalog)
    return tuple(_mark_foreign(tool) for tool in tools)


def _mark_foreign(tool: Tool) -> Tool:
    """Mark a tool as foreign, and drop what only the hall may state: its id and deprecation in the document."""
    remainder = tool.remainder
    if remainder is not None:
        item = tuple(
            change
            for change in remainder.item
            if not change.path.startswith(_OWN_META_PREFIX) and change.path != "/_meta"
        )
        remainder = msgspec.structs.replace(remainder, item=item)
    return msgspec.structs.replace(
        tool, foreign=True, deprecation=None, header_parameters=_headers(tool), remainder=remainder
    )


def _headers(tool: Tool) -> tuple[HeaderParameter, ...]:
    return header_parameters(tool.input) if may_contain(tool.input, HEADER_KEYWORD) else ()


def _header_findings(tool: Tool, document: JsonObject, catalog: Catalog, number: int) -> Iterator[Finding]:
    try:
        _headers(tool)
    except BadSchema as bad:
        from toolhall.dialects.convert.loss_reasons import document_pointer  # lazy: every dialect

        for problem in bad.problems:
            yield Finding(
                document_pointer(f"/inputSchema{problem.path}", document, catalog, number), HEADER_RULE, problem.reason
            )


def _template_findings(tool: Tool) -> Iterator[Finding]:
    """Problems of a URI template that cannot be matched here; only MCP has them, and a definition is one of them."""
    if tool.resource is not None:
        try:
            UriTemplate(tool.resource.uri)
        except BadUriTemplate as bad:
            yield Finding("/uriTemplate" if tool.resource.is_template else "/uri", URI_RULE, str(bad))


def _without_unsafe_icons(document: JsonObject, tools: Sequence[Tool]) -> JsonObject:
    """Return an MCP definition without unsafe icons; only MCP has icons, and a definition is one tool."""
    from toolhall.dialects.lint.metadata_rules import is_safe_icon  # lazy: as in read_external_tools

    (tool,) = tools
    safe = [stated for stated, icon in zip(document["icons"], tool.icons, strict=True) if is_safe_icon(icon)]
    rest = {key: value for key, value in document.items() if key != "icons"}
    return {**rest, "icons": safe} if safe else rest


def count_removed_icons(document: bytes, tools: Sequence[Tool]) -> int:
    """Return how many icons of a definition were removed as unsafe."""
    stated = msgspec.json.decode(document) if len(tools) == 1 else None
    icons = stated.get("icons") if isinstance(stated, dict) else None
    return len(icons) - len(tools[0].icons) if isinstance(icons, list) else 0
