"""Tools of a server at a URL, over MCP: the newest revision, or an older one where the server does not know it."""

import logging

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import note
from toolhall.cli.sources.catalog import fetch_written, rewrite
from toolhall.cli.sources.hall import levels_by_id, served_ids, why_not
from toolhall.cli.sources.legacy import LegacyClient
from toolhall.cli.sources.modern import ModernClient
from toolhall.cli.sources.offer import (
    Attendant,
    Offer,
    Outcome,
    Shown,
    Unspoken,
    called_apart,
    read_offer,
    read_outcome,
    with_versions,
)
from toolhall.cli.sources.rpc import LIST_SECONDS, RpcError, list_tools
from toolhall.cli.sources.wire import Endpoint, as_stated, read_url
from toolhall.cli.tools.desk import HallOptions
from toolhall.cli.waiting import waiting
from toolhall.dialects.mcp.definition import ID_KEY, stated_id
from toolhall.dialects.mcp.revisions import MODERN, NOVEMBER
from toolhall.model.json import JsonObject
from toolhall.model.names import SEARCH_TOOL
from toolhall.schema.bounds import BadSchema
from toolhall.schema.headers import header_parameters

_MCP = "mcp@"
_NOT_THERE = (404, 405)
_MOST_OLDER = 1_000
_log = logging.getLogger("toolhall.cli")


class RemoteSource:
    """A connection to one server for the time of one command."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._hall = HallOptions(url=url, key=key)
        endpoint = read_url(url, key)
        with waiting(f"Connecting to {endpoint}"):
            self._endpoint, self._client = _connect(endpoint, as_stated(endpoint, url))
        self.where = str(self._endpoint)

    def offers(self) -> list[Offer]:
        """Every tool that can be called; MCP 2026-07-28: one with a wrong `x-mcp-header` is left out."""
        with waiting(f"Listing the tools of {self.where}"):
            documents = list_tools(self._client, versions=True)
        offers = _sound(documents)
        if any(map(_is_search, documents)):  # a hall with many tools shows few, and tells all when it is asked
            listed = {offer.key for offer in offers}
            offers += called_apart([offer for offer in self._everything() if offer.key not in listed])
        return with_versions(offers)

    def with_levels(self, offers: list[Offer]) -> list[Offer]:
        """The same with the levels that count, as far as the server tells them to this caller."""
        with waiting(f"Listing the tools of {self.where}"):
            levels = levels_by_id(self._hall)
        if any(offer.effective_level is None and levels.get(offer.id or "") is None for offer in offers):
            note(f"{self.where} does not say which level counts for each tool; a hall tells it to who may manage tools")
        return [msgspec.structs.replace(offer, effective_level=levels.get(offer.id or "")) for offer in offers]

    def _everything(self) -> list[Offer]:
        """What clients would have to search for: the newest version of each, and the others one by one."""
        dialect = f"{_MCP}{self._client.revision}"
        with waiting(f"Listing the tools of {self.where}"):
            newest = fetch_written(self._endpoint, dialect, None)
            offers = _sound(newest.documents) if newest else []
            older = sorted(served_ids(self._hall) - {offer.id for offer in offers})
            for tool_id in older[:_MOST_OLDER]:
                found = fetch_written(self._endpoint, dialect, tool_id)
                offers += _sound(found.documents) if found else []
        return offers

    def written(self, dialect: str, offer: Offer | None = None) -> Shown:
        """Every tool, or this one, as the server itself writes it; an MCP revision as it is shown to its clients."""
        with waiting(f"Listing the tools of {self.where}"):
            if dialect.startswith(_MCP):
                listed = _only(offer, self._shown_to(dialect.removeprefix(_MCP), versions=offer is not None))
                if listed or offer is None:
                    return Shown(listed, [])
            # All versions of a tool have one name in that listing.
            written = fetch_written(self._endpoint, dialect, (offer.id or offer.name) if offer else None)
            return written or rewrite(_only(offer, list_tools(self._client, versions=offer is not None)), dialect)

    def _shown_to(self, revision: str, *, versions: bool) -> list[JsonObject]:
        """What any client of this revision is shown, unless it asks for every version."""
        if revision == self._client.revision:
            return list_tools(self._client, versions=versions)
        if revision == MODERN.name:
            raise Unspoken(f"{self.where} does not speak MCP {revision}")
        other = LegacyClient(self._endpoint)
        try:
            other.start(revision, LIST_SECONDS)
            if other.revision != revision:
                raise Unspoken(f"{self.where} does not speak MCP {revision}")
            return list_tools(other, versions=versions)
        finally:
            other.close()

    def call(self, offer: Offer, arguments: JsonObject, attendant: Attendant, seconds: float) -> Outcome:
        """Over the wire."""
        return read_outcome(self._client.call(offer, arguments, attendant, seconds))

    def why_not(self, wanted: str) -> str | None:
        """What a hall says of a tool that it knows and does not serve; to ask is not to call it."""
        return why_not(self._hall, wanted)

    def close(self) -> None:
        """End the session, if there is one."""
        self._client.close()


def _is_search(document: JsonObject) -> bool:
    meta = document.get("_meta")
    stated = stated_id(meta.get(ID_KEY)) if isinstance(meta, dict) else None
    return stated == SEARCH_TOOL


def _only(offer: Offer | None, documents: list[JsonObject]) -> list[JsonObject]:
    return [document for document in documents if offer is None or document.get("name") == offer.name]


def _connect(endpoint: Endpoint, stated: Endpoint) -> tuple[Endpoint, ModernClient | LegacyClient]:
    """A client of the hall's endpoint, or where there is none of the server at the path that was stated."""
    try:
        return endpoint, _meet(endpoint)
    except RpcError as missing:
        if missing.status not in _NOT_THERE or stated == endpoint:
            raise
        try:
            return stated, _meet(stated)
        except CommandFailed:
            raise missing from None


def _meet(endpoint: Endpoint) -> ModernClient | LegacyClient:
    modern = ModernClient(endpoint)
    try:
        if MODERN.name in modern.discover(LIST_SECONDS):
            return modern
    except RpcError as error:
        # Any refusal may be an older server's way to say that it does not understand.
        if error.status in (401, 403) or error.status >= 500:
            raise
    legacy = LegacyClient(endpoint)
    legacy.start(NOVEMBER.name, LIST_SECONDS)
    return legacy


def _sound(documents: list[JsonObject]) -> list[Offer]:
    return [offer for offer in map(read_offer, documents) if offer is not None and _is_sound(offer)]


def _is_sound(offer: Offer) -> bool:
    try:
        header_parameters(offer.input)
    except BadSchema as error:
        _log.warning("left out the tool %s: %s", offer.name, error)
        return False
    return True
