"""What the three live revisions of MCP do differently, as data."""

import msgspec


class Revision(msgspec.Struct, frozen=True):
    """One revision; a question about a revision is asked of a field here, never of its date."""

    name: str
    modern: bool = False  # stateless: terms in every request, no handshake, no session
    icons: bool = True
    any_output: bool = False  # structured content and output schemas need not be objects
    primed: bool = False  # a stream starts with an empty event that carries an id
    visits: bool = True  # URL-mode elicitation


JUNE = Revision("2025-06-18", icons=False, visits=False)
NOVEMBER = Revision("2025-11-25", primed=True)
MODERN = Revision("2026-07-28", modern=True, any_output=True)

LEGACY = {revision.name: revision for revision in (JUNE, NOVEMBER)}
REVISIONS = {revision.name: revision for revision in (JUNE, NOVEMBER, MODERN)}
SUPPORTED = tuple(sorted(REVISIONS, reverse=True))


def negotiated(requested: str) -> Revision:
    """The revision to answer `initialize` with: the one asked for, else the newest that has a handshake."""
    return LEGACY.get(requested, NOVEMBER)
