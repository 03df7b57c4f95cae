"""The one credential that a request brings, wherever its dialect puts it."""

import re
from hmac import compare_digest

from toolhall.model.errors import Malformed
from toolhall.transports.asgi import Headers
from toolhall.transports.identity.base import Unproven, invalid

AUTHORIZATION = b"authorization"
OXP_KEY = b"oxp-api-key"
OXP_PATHS = "/oxp/"
MOST_CHARACTERS = 16 * 1024
_SCHEME = b"bearer "
_KEY = "tk_"
_KEY_BYTES = _KEY.encode()
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # RFC 6750
_TWICE = "the request brings two different credentials; send one"


def credential(headers: Headers, path: str) -> str | None:
    """The text of the credential in the headers, None where there is none; Unproven for what cannot be one."""
    bearer = headers.get(AUTHORIZATION)
    key = headers.get(OXP_KEY) if path.startswith(OXP_PATHS) else None
    if key is None:
        return None if bearer is None else _bearer(bearer)
    if bearer is not None and not compare_digest(_bearer(bearer), _text(key)):
        raise Unproven(Malformed(_TWICE), sent=True)
    return _text(key)


def is_key(credential: str) -> bool:
    """Whether it is an API key, and no token of an issuer."""
    return credential.startswith(_KEY)


def names_key(headers: Headers) -> bool:
    """Whether an API key is among the credentials, good or not."""
    return _KEY_BYTES in headers.get(AUTHORIZATION, b"") or _KEY_BYTES in headers.get(OXP_KEY, b"")


def same(headers: Headers, token: str) -> bool:
    """Whether a message brings the credential again that its headers bring; Unproven for another one."""
    bearer = headers.get(AUTHORIZATION)
    if bearer is None:
        return False
    if not compare_digest(_bearer(bearer).encode(), token.encode(errors="replace")):
        raise Unproven(Malformed(_TWICE), sent=True)
    return True


def _bearer(header: bytes) -> str:
    if header[:7].lower() != _SCHEME:
        raise invalid()
    return _text(header[7:].strip(b" "))


def _text(credential: bytes) -> str:
    if len(credential) > MOST_CHARACTERS or not _TOKEN.fullmatch(credential):
        raise invalid()
    return credential.decode("ascii")
