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
from toolhall.dialects.catalogs import readable_catalog
from toolhall.dialects.convert import lossless
from toolhall.dialects.convert.losses import document_pointer
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.lint.metadata_rules import is_safe_icon
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Deprecation, HeaderParameter, Tool
from toolhall.model.versions import newest_version
from toolhall.registry.naming import NameClaims
from toolhall.schema.cost import BadSchema
from toolhall.schema.header_parameters import header_parameters, may_have_headers
from toolhall.stores.tools import ToolOrigin, ToolRecord, ToolState

HEADER_RULE = "header/refused"
_OWN_META_PREFIX = "/_meta/dev.toolhall~1"


def read_external_tools(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a document, as far as they may be served one day; BadDocument with every finding."""
    tools = lossless.read(document, catalog)
    findings = [each for number, tool in enumerate(tools) for each in _header_findings(tool, document, catalog, number)]
    if findings:
        raise BadDocument(findings)
    if not all(is_safe_icon(icon) for tool in tools for icon in tool.icons):
        # Read again without them: what is kept beside the model would bring them back.
        tools = lossless.read(_without_unsafe_icons(document, tools), catalog)
    return tuple(_mark_foreign(tool) for tool in tools)


def _mark_foreign(tool: Tool) -> Tool:
    """Marked as what it is; what only the hall says (its id, whether it will go) is not kept as the document had it."""
    kept = tool.remainder
    if kept is not None:
        item = tuple(
            change for change in kept.item if not change.path.startswith(_OWN_META_PREFIX) and change.path != "/_meta"
        )
        kept = msgspec.structs.replace(kept, item=item)
    return msgspec.structs.replace(
        tool, foreign=True, deprecation=None, header_parameters=_headers(tool), remainder=kept
    )


def _headers(tool: Tool) -> tuple[HeaderParameter, ...]:
    return header_parameters(tool.input) if may_have_headers(tool.input) else ()


def _header_findings(tool: Tool, document: JsonObject, catalog: Catalog, number: int) -> Iterator[Finding]:
    try:
        _headers(tool)
    except BadSchema as bad:
        for problem in bad.problems:
            yield Finding(
                document_pointer(f"/inputSchema{problem.path}", document, catalog, number), HEADER_RULE, problem.reason
            )


def _without_unsafe_icons(document: JsonObject, tools: Sequence[Tool]) -> JsonObject:
    """A definition of MCP, the only dialect that has icons: it is one tool."""
    (tool,) = tools
    safe = [stated for stated, icon in zip(document["icons"], tool.icons, strict=True) if is_safe_icon(icon)]
    rest = {key: value for key, value in document.items() if key != "icons"}
    return {**rest, "icons": safe} if safe else rest


def count_removed_icons(document: bytes, tools: Sequence[Tool]) -> int:
    """How many icons of a definition are not served, because they could do harm."""
    stated = msgspec.json.decode(document) if len(tools) == 1 else None
    icons = stated.get("icons") if isinstance(stated, dict) else None
    return len(icons) - len(tools[0].icons) if isinstance(icons, list) else 0


CODE_DIALECT = "toolhall"  # the dialect of tools that are code: the model itself
_decode = msgspec.json.Decoder(Tool).decode


class TamperedRecord(Exception):
    """What the store holds is not what was registered; the message is for the log."""


class RegistrationSource(msgspec.Struct, frozen=True):
    """Where tools come from, who brings them when, and what their author says of the change beyond the definition."""

    origin: ToolOrigin
    by: str
    at: float
    detail: str = ""
    behaviour: ChangeKind | None = None


@dataclass(frozen=True)
class DefinitionDocument:
    """One document with definitions, as it came; it is read once."""

    body: Json
    dialect: str
    detail: str = ""  # the file it is from

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """What it defines; BadDocument with every finding."""
        return read_definition(self.body, self.dialect)


def record_for_code(tool: Tool, source: RegistrationSource) -> ToolRecord:
    """What is kept of a tool of the operator's own code."""
    return _new_record(tool, CODE_DIALECT, code_document(tool), 0, source)


def code_document(tool: Tool) -> bytes:
    """A tool of the operator's own code, as it is kept."""
    return msgspec.json.encode(tool)


def records_for_document(
    document: DefinitionDocument, tools: tuple[Tool, ...], source: RegistrationSource
) -> list[ToolRecord]:
    """What is kept of the tools of a document; each holds the whole of it, as it came."""
    body = encode(document.body)
    return [_new_record(tool, document.dialect, body, number, source) for number, tool in enumerate(tools)]


def read_definition(document: Json, dialect: str) -> tuple[Tool, ...]:
    """The tools of a document from outside; BadDocument with every finding."""
    return read_external_tools(document, readable_catalog(dialect))


def tool_from_record(record: ToolRecord) -> Tool:
    """The tool that these papers are about; raises Tampered if it is not what was registered."""
    try:
        tool = _decode(record.model or record.document)
    except msgspec.DecodeError as error:
        raise TamperedRecord(f"{record.id} cannot be read from the store: {error}") from None
    # The digests do not cover whose tool it is; the operator's own code is trusted with more.
    whole = (str(tool.id), tool.foreign) == (record.id, record.dialect != CODE_DIALECT)
    stated = Digests(record.shown_digest, record.contract_digest)
    if not whole or (compute_digests(tool) != stated and compute_legacy_digests(tool) != stated):
        raise TamperedRecord(f"{record.id} is not what was registered under that id")
    return with_deprecation(tool, record)


def with_current_digests(record: ToolRecord, tool: Tool) -> ToolRecord:
    """The papers of a tool with the digests that it has today, so that it can be compared with what comes now."""
    if b'"prefixItems"' not in (record.model or record.document):  # nothing else has other digests today
        return record
    found = compute_digests(tool)
    return msgspec.structs.replace(record, shown_digest=found.shown, contract_digest=found.contract)


def with_deprecation(tool: Tool, record: ToolRecord) -> Tool:
    """The tool with what its papers say of its end."""
    said = None
    if record.deprecated_at is not None:
        said = Deprecation(since=int(record.deprecated_at), sunset=record.sunset, successor=record.successor)
    return tool if tool.deprecation == said else msgspec.structs.replace(tool, deprecation=said)


def _new_record(tool: Tool, dialect: str, document: bytes, number: int, source: RegistrationSource) -> ToolRecord:
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


MAX_TOOLS = 100_000
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024  # of documents; the tools of one share it


class IndexedTool(msgspec.Struct, frozen=True):
    """A tool with its papers."""

    record: ToolRecord
    tool: Tool


class RecordIndex:
    """What is known, ready to be asked."""

    def __init__(self) -> None:
        self._by_id: dict[str, IndexedTool] = {}
        self._by_toolkit: dict[str, dict[str, IndexedTool]] = {}
        self._by_key: dict[str, dict[str, IndexedTool]] = {}
        self._documents: Counter[bytes] = Counter()
        self._bytes = 0
        self.name_claims = NameClaims()  # of what came from outside

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._by_id

    def is_from_code(self, tool_id: str) -> bool:
        """Whether these are papers of the operator's own code."""
        listed = self._by_id.get(tool_id)
        return listed is not None and listed.record.origin == "code"

    def tool_states(self, toolkit: str, version: str) -> dict[str, str]:
        """What has become of the tools of a version of a toolkit, by id."""
        return {
            each.record.id: each.record.state for each in self.in_toolkit(toolkit) if each.record.version == version
        }

    def owners(self, toolkit: str) -> frozenset[str]:
        """Who has registered anything of a toolkit."""
        return frozenset(listed.record.by for listed in self.in_toolkit(toolkit))

    @property
    def all(self) -> tuple[IndexedTool, ...]:
        """Everything, in the order it came."""
        return tuple(self._by_id.values())

    def get(self, name: str) -> IndexedTool | None:
        """By id, or by `Toolkit.tool`, which means its newest version."""
        return self._by_id.get(name) or self._newest(name)

    def in_toolkit(self, toolkit: str) -> list[IndexedTool]:
        """Every version of every tool of a toolkit."""
        return list(self._by_toolkit.get(toolkit, {}).values())

    def versions(self, key: str) -> list[IndexedTool]:
        """Every version of `Toolkit.tool`."""
        return list(self._by_key.get(key, {}).values())

    def put(self, record: ToolRecord, tool: Tool) -> None:
        """Add or replace."""
        if record.id in self._by_id:
            self._release_claims(record.id)
        listed = self._by_id[record.id] = IndexedTool(record, tool)
        for index, name in self._indexes(record):
            index.setdefault(name, {})[record.id] = listed
        self._count_document(record, 1)
        if record.origin != "code":
            self.name_claims.claim(tool)

    def put_all(self, tools: Iterable[IndexedTool]) -> None:
        """Add or replace each."""
        for listed in tools:
            self.put(listed.record, listed.tool)

    def remove(self, tool_id: str) -> None:
        """Forget what is there."""
        self._release_claims(tool_id)
        for index, name in self._indexes(self._by_id.pop(tool_id).record):
            del index[name][tool_id]
            if not index[name]:
                del index[name]

    def check_capacity(self, count: int, size: int) -> None:
        """Raise Malformed if there is no room for so many tools more, in so many bytes."""
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
        """Count a document once, however many tools it holds."""
        before = self._documents[record.document]
        after = self._documents[record.document] = before + change
        if 0 in (before, after):
            self._bytes += change * len(record.document)
        if after == 0:
            del self._documents[record.document]

    def _newest(self, key: str) -> IndexedTool | None:
        versions = {each.record.version: each for each in self.versions(key)}
        return versions.get(newest_version(versions) or "")


_log = logging.getLogger("toolhall.registrar")


def load_records(stored: Iterable[ToolRecord], index: RecordIndex) -> list[IndexedTool]:
    """Fill the ledger; returns what must be quarantined, because its papers were changed behind our back."""
    changed: list[IndexedTool] = []
    for kept in stored:
        try:
            tool = tool_from_record(kept)
        except TamperedRecord as tampered:
            _log.error("%s; it is not served until somebody has looked at it", tampered)
            changed += _reread_quarantined(kept)
            continue
        if kept.sound:
            index.put(with_current_digests(kept, tool), tool)
        else:
            _log.error("another program changed %s in the store; it is not served until somebody has looked", kept.id)
            changed.append(IndexedTool(msgspec.structs.replace(kept, state="quarantined"), tool))
    return changed


def _reread_quarantined(record: ToolRecord) -> list[IndexedTool]:
    """The tool that the document defines now, quarantined; nothing, if that cannot be read either."""
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
