"""Brings back what the store holds; what is not what was registered comes back quarantined, as it is now."""

import logging
from collections.abc import Iterable

import msgspec

from toolhall.contracts.digest import digests
from toolhall.dialects import strict
from toolhall.model.errors import ToolhallError
from toolhall.registrar.ledger import Ledger, Listed
from toolhall.registrar.papers import OWN, Tampered, read_definition, renewed, tool_of
from toolhall.stores.base import Kept

_log = logging.getLogger("toolhall.registrar")


def load(stored: Iterable[Kept], ledger: Ledger) -> list[Listed]:
    """Fill the ledger; returns what must be quarantined, because its papers were changed behind our back."""
    changed: list[Listed] = []
    for kept in stored:
        try:
            tool = tool_of(kept)
        except Tampered as tampered:
            _log.error("%s; it is not served until somebody has looked at it", tampered)
            changed += _read_again(kept)
            continue
        if kept.sound:
            ledger.put(renewed(kept, tool), tool)
        else:
            _log.error("another program changed %s in the store; it is not served until somebody has looked", kept.id)
            changed.append(Listed(msgspec.structs.replace(kept, state="quarantined"), tool))
    return changed


def _read_again(kept: Kept) -> list[Listed]:
    """The tool that the document defines now, quarantined; nothing, if that cannot be read either."""
    try:
        tool = read_definition(strict.decode(kept.document), kept.dialect)[kept.number]
    except (ToolhallError, IndexError, LookupError):
        return []
    if kept.dialect == OWN or str(tool.id) != kept.id:
        return []
    found = digests(tool)
    changed = msgspec.structs.replace(
        kept,
        state="quarantined",
        model=msgspec.json.encode(tool),
        shown_digest=found.shown,
        contract_digest=found.contract,
    )
    return [Listed(changed, tool)]
