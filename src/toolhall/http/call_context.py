"""The context of calls from request-response dialects: `impersonate` and `NoInteractionLink`.

`impersonate` sets the user that a caller acts for, if its scopes allow it and the id is unambiguous to a human
reader. `NoInteractionLink` is the client link of dialects without notifications and questions: a tool that asks is
refused.
"""

import re
import unicodedata
from collections.abc import Mapping

import msgspec

from toolhall.dialects.mcp.input_requests import required_capability
from toolhall.model.caller import ACT_AS, Caller
from toolhall.model.errors import Denied, Malformed, Unsupported
from toolhall.model.messages import CallEvent
from toolhall.model.questions import Answered, Question
from toolhall.model.text import clean_text

MAX_USER_ID = 256
_NOT_ALLOWED = (
    "context.user_id names another user than this caller; leave it out, or use a credential with the scope act_as"
)
_BAD_USER_ID = (
    f"context.user_id must be 1 to {MAX_USER_ID} printable characters in Unicode's composed form (NFC), "
    "without blanks around them or two in a row, without invisible characters, and with no combining mark at the "
    "beginning of a word"
)
# Unicode's property Default_Ignorable_Code_Point, as far as Python calls such characters printable, and the blank
# pattern of Braille: all of them may be drawn as nothing. A regular expression's character class.
INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
_NOT_IN_USER_ID = re.compile(f"{INVISIBLE}|  ")  # no emoji styles either, for which other texts keep some of these


def impersonate(caller: Caller, user_id: str | None) -> Caller:
    """Return the caller acting for a user; Denied without the scope `act_as`, Malformed for an ambiguous id.

    The id decides whose secrets and accounts a call uses, and a person reads it before approving: no part of it may be
    invisible, or have two spellings. Letters of different scripts that look alike are different letters.
    """
    if user_id is None or user_id in caller.names:
        return caller
    if ACT_AS not in caller.scopes:
        raise Denied(_NOT_ALLOWED, scopes=(ACT_AS,))
    if not _is_valid_user_id(user_id):
        raise Malformed(_BAD_USER_ID)
    return msgspec.structs.replace(caller, acting_for=user_id)


def _is_valid_user_id(user_id: str) -> bool:
    return (
        0 < len(user_id) <= MAX_USER_ID
        and user_id.isprintable()
        and user_id == user_id.strip()
        and _NOT_IN_USER_ID.search(user_id) is None
        and (user_id.isascii() or _is_canonical_unicode(user_id))
    )


def _is_canonical_unicode(user_id: str) -> bool:
    return unicodedata.normalize("NFC", user_id) == clean_text(user_id) == user_id and not any(
        unicodedata.category(word[0]).startswith("M") for word in user_id.split(" ")
    )


class NoInteractionLink:
    """The client link of dialects without notifications and questions; a tool that asks a question is refused."""

    def emit(self, event: CallEvent) -> None:
        """Drop the event."""

    def can(self, feature: str) -> bool:  # noqa: ARG002 - none
        """Support nothing."""
        return False

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Raise Unsupported for the first question."""
        for question in questions.values():
            raise Unsupported(required_capability(question))
        return {}

    async def detach(self, retry_ms: int) -> None:
        """Do nothing: the client cannot resume."""


NO_INTERACTION = NoInteractionLink()
