"""What a person must do before a call can run becomes pages to visit, where the client can open them."""

from collections.abc import Mapping

from toolhall.dialects.mcp.terms import Terms
from toolhall.model.errors import NeedsRequirement, NeedsVerification
from toolhall.model.exchange import Answer, Asked
from toolhall.model.json import Json
from toolhall.model.question import Visit
from toolhall.model.requirements import Missing

_NONE: Mapping[str, Json] = {}
VERIFICATION = "dev.toolhall/approval"
ACCOUNT = "dev.toolhall/account/"


def verifiable(answer: Answer, terms: Terms, replies: Mapping[str, Json] = _NONE) -> Answer:
    """The visits to make before the call is sent again; whatever the client replies, only the page's word counts.

    A client that cannot open pages, or whose person does not want to now, reads the links instead.
    """
    visits = _visits(answer)
    if not visits or not terms.revision.visits or not terms.can("elicitation.url"):
        return answer
    return answer if any(map(_unwanted, map(replies.get, visits))) else Asked(visits)


def _visits(answer: Answer) -> dict[str, Visit]:
    match answer:
        case NeedsVerification(message=message, url=str(url), id=approval):
            return {VERIFICATION: Visit(message, url, approval or "")}
        case NeedsRequirement(missing=missing):
            visits = dict(map(_link, missing))
            # Where something else is missing too, no visit would let the call run.
            return {key: visit for key, visit in visits.items() if visit is not None} if all(visits.values()) else {}
        case _:
            return {}


def _link(missing: Missing) -> tuple[str, Visit | None]:
    """The page that links one account."""
    if missing.account is None or missing.url is None:
        return "", None
    scopes = f" for {', '.join(missing.account.scopes)}" if missing.account.scopes else ""
    message = f"link your account at {missing.account.provider}{scopes}, then repeat the call"
    return f"{ACCOUNT}{missing.account.provider}", Visit(message, missing.url, missing.id or "")


def _unwanted(reply: Json) -> bool:
    match reply:
        case {"action": "decline" | "cancel"}:
            return True
        case _:
            return False
