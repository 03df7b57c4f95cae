"""For whom a call is made: a message may name a user, which never makes its caller somebody else."""

import re
import unicodedata

import msgspec

from toolhall.model.caller import ACT_AS, Caller
from toolhall.model.errors import Denied, Malformed
from toolhall.model.text import clean_text

MAX_USER_ID = 256
_REFUSAL = (
    "context.user_id names another user than this caller; leave it out, or use a credential with the scope act_as"
)
_BAD_USER_ID = (
    f"context.user_id must be 1 to {MAX_USER_ID} printable characters in Unicode's composed form (NFC), "
    "without blanks around them or two in a row, without invisible characters, and with no combining mark at the "
    "beginning of a word"
)
# Unicode's property Default_Ignorable_Code_Point, as far as Python calls such characters printable, and the blank
# pattern of Braille: all of them may be drawn as nothing. A user id has no emoji styles, for which texts keep some.
_UNCLEAR = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]|  "
)


def acting(caller: Caller, user_id: str | None) -> Caller:
    """The caller, with the user it acts for; Denied where it may not, Malformed for an id that no person could tell.

    The id decides whose secrets and accounts a call uses, and a person reads it before approving: nothing in it may be
    drawn as nothing, or be spelled in two ways. Letters of different scripts that look alike are different letters.
    """
    if user_id is None or user_id in caller.names:
        return caller
    if ACT_AS not in caller.scopes:
        raise Denied(_REFUSAL, scopes=(ACT_AS,))
    if not _is_plain(user_id):
        raise Malformed(_BAD_USER_ID)
    return msgspec.structs.replace(caller, acting_for=user_id)


def _is_plain(user_id: str) -> bool:
    return (
        0 < len(user_id) <= MAX_USER_ID
        and user_id.isprintable()
        and user_id == user_id.strip()
        and _UNCLEAR.search(user_id) is None
        and (user_id.isascii() or _is_plain_unicode(user_id))
    )


def _is_plain_unicode(user_id: str) -> bool:
    return unicodedata.normalize("NFC", user_id) == clean_text(user_id) == user_id and not any(
        unicodedata.category(word[0]).startswith("M") for word in user_id.split(" ")
    )
