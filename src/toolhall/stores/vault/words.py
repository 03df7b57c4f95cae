"""Which names, values and owners a secret may have."""

import re

from toolhall.model.errors import Malformed
from toolhall.model.secret import Secret

MOST_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_PLAIN = re.compile(r"[^\x00\ud800-\udfff]{1,256}")


def checked_name(name: str) -> str:
    """The name; raises Malformed."""
    if not _NAME.fullmatch(name):
        raise Malformed(
            "a secret's name begins with a letter or underscore and has up to 128 letters, digits, dots, dashes and"
            " underscores, such as TWILIO_API_KEY"
        )
    return name


def checked_user(user: str | None) -> str | None:
    """Whose it is; raises Malformed."""
    if user is not None and not _PLAIN.fullmatch(user):
        raise Malformed("a user's id has 1 to 256 characters")
    return user


def checked_value(value: Secret) -> bytes:
    """The value as it is sealed; raises Malformed, which never repeats it."""
    try:
        plain = value.reveal().encode()
    except UnicodeEncodeError:
        raise Malformed("a secret's value is text; this one holds half a character") from None
    if len(plain) > MOST_BYTES:
        raise Malformed(f"a secret's value has at most {MOST_BYTES // 1024} KiB; keep files elsewhere")
    return plain
