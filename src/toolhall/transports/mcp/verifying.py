"""A call that a person must verify first becomes a page to visit, where the client can open one for them."""

from toolhall.dialects.mcp.terms import Terms
from toolhall.model.errors import NeedsVerification
from toolhall.model.exchange import Answer, Asked
from toolhall.model.question import Visit

VERIFICATION = "dev.toolhall/approval"


def verifiable(answer: Answer, terms: Terms) -> Answer:
    """The visit to make before the call is sent again; whatever the client replies, only the page's word counts."""
    if not isinstance(answer, NeedsVerification) or answer.url is None:
        return answer
    if not terms.revision.visits or not terms.can("elicitation.url"):
        return answer  # said in words, with the link
    return Asked({VERIFICATION: Visit(answer.message, answer.url, answer.id or "")})
