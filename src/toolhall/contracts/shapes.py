"""Changes in the schemas of a tool: what it accepts, and what may come back."""

from collections.abc import Iterator

import msgspec

from toolhall.contracts.canonical import canonical
from toolhall.contracts.changes import Change, Kind, under
from toolhall.contracts.narrowing.gap import Gap
from toolhall.contracts.notes import input_notes, output_notes
from toolhall.contracts.schemas import Pair
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Output
from toolhall.schema.place import Path, Place

_encode = msgspec.json.Encoder(order="deterministic").encode
_LESS = "no longer accepts {}", "could not be proven to accept all that it accepted: {}"
_MORE = "also accepts {}", "may accept more: {}"
_RETURNS_LESS = "no longer returns {}", "may return less: {}"
_RETURNS_MORE = "may now return {}", "could not be proven to return only what it returned: {}"
_ANOTHER_WAY = Change("fix", "", "is written differently and means the same")


def input_changes(old: JsonObject, new: JsonObject) -> list[Change]:
    """What used to be accepted must stay accepted."""
    if _encode(old) == _encode(new):
        return []
    documents, pair = (new, old), Pair(old, new)
    found = [_change(gap, "breaking", _LESS, documents) for gap in pair.narrowed()]
    found += [_change(gap, "feature", _MORE, documents) for gap in pair.widened()]
    return under("/inputSchema", _or_another_way([*found, *input_notes(old, new)], old, new))


def output_changes(old: Output, new: Output) -> list[Change]:
    """What may come back must not widen, and what did come back must still be there."""
    if old.kind != "schema" or new.kind != "schema":
        return list(_kinds(old, new))
    before, after = old.schema or {}, new.schema or {}
    if _encode(before) == _encode(after):
        return []
    documents, pair = (after, before), Pair(before, after)
    found = [_change(gap, _widening(gap), _RETURNS_MORE, documents) for gap in pair.widened()]
    # A free-form object may still return what was listed, but nobody says so any more.
    found += [_change(gap, _losing(gap), _RETURNS_LESS, documents) for gap in pair.narrowed(maps=False)]
    return under("/outputSchema", _or_another_way([*found, *output_notes(before, after)], before, after))


def _change(gap: Gap, kind: Kind, words: tuple[str, str], documents: tuple[Json, ...]) -> Change:
    if gap.about == "undeclared":  # nobody promised anything, but who looks closely can tell
        kind = "feature"
    return Change(kind, _pointer(gap.path, documents), words[not gap.proven].format(gap.what))


def _widening(gap: Gap) -> Kind:
    """A new member breaks nobody who had to expect others; one who did not may refuse it."""
    return "feature" if gap.about == "member" else "breaking"


def _losing(gap: Gap) -> Kind:
    """A member that callers read must stay; other values that never come any more are no loss."""
    return "breaking" if gap.about in ("member", "refused") else "feature"


def _pointer(path: str, documents: tuple[Json, ...]) -> str:
    """The path where it leads to something; else the nearest thing around it, as older drafts spell differently."""
    parts: Path = tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    found = [Place((parts,)).pointer(document) for document in documents]
    return max(found, key=len)


def _or_another_way(found: list[Change], old: JsonObject, new: JsonObject) -> list[Change]:
    return found if found or canonical(old) == canonical(new) else [_ANOTHER_WAY]


def _kinds(old: Output, new: Output) -> Iterator[Change]:
    if old.kind == new.kind:
        return
    match old.kind, new.kind:
        case "unstated", _:
            yield Change("feature", "/outputSchema", "says what comes back")
        case _, "unstated":
            yield Change("breaking", "/outputSchema", "does not say any more what comes back")
        case "none", _:
            yield Change("breaking", "/outputSchema", "something comes back where nothing did")
        case _:
            yield Change("breaking", "/outputSchema", "nothing comes back any more")
