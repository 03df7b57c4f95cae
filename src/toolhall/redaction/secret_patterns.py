"""Redacts secrets that are known by their shape only: API keys, JWTs, PEM blocks, auth headers, passwords in URLs.

`redact_patterns` replaces each match by `REDACTED` and reports it. The texts are hostile: every pattern either consumes
what it has looked at or looks a bounded way ahead, so the time is linear in the length of the text.
"""

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache, partial
from typing import TypeAlias

REDACTED = "[redacted]"
OnSecretFound: TypeAlias = Callable[[str], None]
# The patterns are texts, compiled when they are first used: most commands redact nothing.
# A run of characters that keys consist of is replaced as a whole if a key begins anywhere in it.
_TOKEN_RUN = r"[A-Za-z0-9_.+/=~-]{12,}"  # noqa: S105 - a pattern
_API_KEY = (
    r"(?<![A-Za-z0-9])tk_[0-9A-Za-z]{12}_[\w-]{8}"  # an API key of the hall
    r"|(?<![A-Za-z0-9])sk-[\w-]{12}|(?<![A-Za-z])[rsp]k_(?:live|test)_\w{8}|(?<![A-Za-z])gsk_\w{16}"
    r"|gh[opsur]_[A-Za-z0-9]{16}|github_pat_\w{16}|glpat-[\w-]{12}|xox[a-z]-[\w-]{8}|xapp-[\w-]{8}"
    r"|(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12}"
    r"|AIza[\w-]{24}|ya29\.[\w-]{12}|GOCSPX-[\w-]{12}|npm_[A-Za-z0-9]{24}|pypi-[\w-]{16}|hf_[A-Za-z0-9]{16}"
    r"|SG\.[\w-]{12}|do[opr]_v1_[0-9a-f]{12}|shp[acps]{2}_[0-9A-Fa-f]{12}|hv[sbr]\.[\w-]{12}|lin_api_\w{12}"
    r"|xai-\w{16}|pplx-\w{16}|r8_\w{16}|ntn_\w{16}|AGE-SECRET-KEY-1"
    r"|hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/"
)
_JWT = r"eyJ[\w-]{8}"
_PEM = r"(?s)-----BEGIN [^-\n]{1,64}-----.*?(?:-----END [^-\n]{1,64}-----|\Z)"
_BEARER = r"(?i)(?<![a-z0-9])bearer[ \t]{1,4}([\w.+/=~-]{6,})"
_BASIC_AUTH = r"(?i)(?<![a-z0-9])basic[ \t]{1,4}([A-Za-z0-9+/]{4,}={0,2})"
_HEADER = r"(?i)(?:authorization|set-cookie|cookie)[\"']?[ \t]{0,4}[:=][ \t]{0,4}([^\r\n]+)"
_ASSIGNMENT = (
    r"(?i)(?:passw(?:or)?d|passphrase|passcode|pwd|secret|credential|token(?!i[sz])|cookie"
    r"|(?:api|app|access|account|auth|client|encryption|private|shared|signing|ssh)[_. -]?key)"
    r"(?P<rest>[\w.-]{0,32})[\\\"']{0,2}\s{0,3}[:=]{1,2}>?\s{0,3}"
    r"(?!\[redacted\](?:[\s\"'&]|\Z))"
    r"(?:\\\"(?P<inner>(?:[^\"\\]|\\[^\"])*+)"  # JSON inside JSON: the quotes are escaped
    r"|\"(?P<double>(?:[^\"\\]|\\[\s\S])*+)|'(?P<single>(?:[^'\\]|\\[\s\S])*+)|(?P<bare>[^\s\"'&]+))"
)
_URL_PASSWORD = r"://[^\s/:@]{0,128}:([^\s/@]{1,256})@"  # noqa: S105 - a pattern
_URL_PARAMETER = r"(?i)[?&](?:key|sig|signature|code|x-(?:amz|goog)-[a-z-]{1,32})=([^&\s#\"']+)"
_BOT_TOKEN = r"(?<!\d)\d{8,10}:([\w-]{35})"  # noqa: S105 - a pattern


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def redact_patterns(text: str, on_found: OnSecretFound) -> str:
    """Return the text without secrets of known shapes; `on_found` receives each of them."""
    folded = text.casefold()
    for words, pattern, replace in _PATTERNS:
        if any(word in folded for word in words):
            text = _compiled(pattern).sub(partial(replace, on_found), text)
    return _compiled(_TOKEN_RUN).sub(
        lambda match: _redact_group(match, 0, on_found) if _contains_key(match[0]) else match[0], text
    )


def _redact_match(on_found: OnSecretFound, match: re.Match[str]) -> str:
    return _redact_group(match, 0, on_found)


def _redact_first_group(on_found: OnSecretFound, match: re.Match[str]) -> str:
    return _redact_group(match, 1, on_found)


def _redact_basic_auth(on_found: OnSecretFound, match: re.Match[str]) -> str:
    return _redact_group(match, 1, on_found) if _is_basic_credential(match[1]) else match[0]


def _redact_group(match: re.Match[str], group: int | str, on_found: OnSecretFound) -> str:
    secret = match[group]
    if secret == REDACTED:
        return match[0]
    on_found(secret)
    start, end = (position - match.start() for position in match.span(group))
    return match[0][:start] + REDACTED + match[0][end:]


def _redact_assignment(on_found: OnSecretFound, match: re.Match[str]) -> str:
    group = match.lastgroup or "bare"
    value = match[group]
    counts = value.isdigit() and match["rest"].endswith("s")  # max_tokens=100
    return (
        match[0] if not value or counts or value in ("null", "true", "false") else _redact_group(match, group, on_found)
    )


def _is_basic_credential(text: str) -> bool:
    """True if this is base64 of `user:password` (RFC 7617), not just the word after "basic"."""
    try:
        return b":" in base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return False


def _contains_key(run: str) -> bool:
    web_token = _compiled(_JWT).search(run)
    return bool(_compiled(_API_KEY).search(run)) or (web_token is not None and "." in run[web_token.end() :])


# Each with words that a text must contain for the pattern to match; most texts contain none.
_PATTERNS: tuple[tuple[tuple[str, ...], str, Callable[[OnSecretFound, re.Match[str]], str]], ...] = (
    (("-----begin ",), _PEM, _redact_match),
    (("authorization", "cookie"), _HEADER, _redact_first_group),
    (("bearer",), _BEARER, _redact_first_group),
    (("basic",), _BASIC_AUTH, _redact_basic_auth),
    (("://",), _URL_PASSWORD, _redact_first_group),
    (("?", "&"), _URL_PARAMETER, _redact_first_group),
    ((":",), _BOT_TOKEN, _redact_first_group),
    (("pass", "pwd", "secret", "credential", "token", "cookie", "key"), _ASSIGNMENT, _redact_assignment),
)
