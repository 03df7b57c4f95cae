"""A call that a person must verify first becomes a page to visit, where the client can open one for them."""

from collections.abc import Mapping

from toolhall.dialects.mcp.terms import Terms
from toolhall.model.errors import NeedsVerification
from toolhall.model.exchange import Answer, Asked
from toolhall.model.json import Json
from toolhall.model.question import Visit

_NONE: Mapping[str, Json] = {}
VERIFICATION = "dev.toolhall/approval"


def verifiable(answer: Answer, terms: Terms, replies: Mapping[str, Json] = _NONE) -> Answer:
    """The visit to make before the call is sent again; whatever the client replies, only the page's word counts.

    A client that cannot open pages, or whose person does not want to now, reads the link instead.
    """
    if not isinstance(answer, NeedsVerification) or answer.url is None:
        return answer
    if not terms.revision.visits or not terms.can("elicitation.url"):
        return answer
    match replies.get(VERIFICATION):
        case {"action": "decline" | "cancel"}:
            return answer
        case _:
            pass
    return Asked({VERIFICATION: Visit(answer.message, answer.url, answer.id or "")})
