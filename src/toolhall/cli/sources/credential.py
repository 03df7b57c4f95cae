"""The key that a command sends to a running hall."""

import os
import re

from toolhall.cli.failure import WrongUsage

VARIABLE = "TOOLHALL_KEY"
_SENDABLE = re.compile(r"[\x21-\x7e]{1,16384}")


def read_key(given: str | None) -> str:
    """What was given, or what the environment holds; nothing if neither. It is never shown, also where it is wrong."""
    key = given if given is not None else os.environ.get(VARIABLE, "").strip()
    if given is None and not key:
        return ""
    if not _SENDABLE.fullmatch(key):
        where = VARIABLE if given is None else "--key"
        raise WrongUsage(
            f"{where} holds no key: a key is one word of visible ASCII, as 'toolhall key create' prints it"
        )
    return key


def refusal(status: int, *, sent: bool) -> str:
    """What to do where a server answers 401 or 403."""
    if status == 403:
        return "the server does not allow this with your credential"
    if sent:
        return f"the server does not accept this key: it is unknown, expired or revoked; renew --key or {VARIABLE}"
    return f"the server wants a credential: put a key into {VARIABLE}, or give it with --key"
