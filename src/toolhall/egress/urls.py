"""Strict URL parsing (parse_url): a URL that two parsers could read differently is refused."""

import importlib
import re
from typing import NoReturn
from urllib.parse import quote, unquote

import msgspec

from toolhall.egress.addresses import (
    ALLOW_SETTING_SOURCES,
    EgressAllowlist,
    EgressRefused,
    IpAddress,
    allowlist_entry,
    is_hostname,
    is_loopback,
    parse_address,
)

MAX_URL_LENGTH = 8_192
MAX_DISPLAY_LENGTH = 200
_EMPTY_ALLOWLIST = EgressAllowlist()
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"(?i)https?://")
_INVALID_CHARACTER = re.compile(r"[^\x21-\x7e]|[\"<>\\]|%(?![0-9A-Fa-f]{2})")
_URL = re.compile(
    r"(?i)(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[^\[\]:/?#@]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>(?:/[^?#]*)?)(?:\?(?P<query>[^#]*))?"
)
_HEADER = re.compile(r"[\t\x20-\x7e]*")
_PATH_SEPARATOR = re.compile(r"[/\\]")


class Url(msgspec.Struct, frozen=True):
    """A URL whose text is allowed; the addresses of its host are checked when it is connected to."""

    scheme: str
    host: str  # in lower case, IDNA-encoded (xn--); an IPv6 address without brackets
    port: int
    path: str
    query: str | None

    @property
    def origin(self) -> str:
        """Scheme, host and port; the default port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    @property
    def display(self) -> str:
        """For messages and logs: without the query, which may hold secrets."""
        return f"{self.origin}{self.path}"

    def __str__(self) -> str:
        return self.display if self.query is None else f"{self.display}?{self.query}"

    def __repr__(self) -> str:
        return f"Url({self.display!r})"


def parse_url(url: str, allowlist: EgressAllowlist = _EMPTY_ALLOWLIST, *, allow_plain: bool = False) -> Url:
    """Parse an https URL, or an http URL to a loopback host on the allowlist; raises EgressRefused for all others.

    With `allow_plain`, http may lead to any host: for URLs that a person typed, and requests without credentials.
    """
    if len(url) > MAX_URL_LENGTH:
        _refuse(url, f"is longer than {MAX_URL_LENGTH} characters")
    if not _SCHEME.match(url):
        _refuse(
            url,
            f"is not an https URL; http is allowed only to loopback hosts that are in {ALLOW_SETTING_SOURCES}",
        )
    host, _, _ = url.partition("//")[2].partition("/")
    plain = url if host.isascii() else url.replace(host, _to_idna(url, host), 1)
    if _INVALID_CHARACTER.search(plain):
        _refuse(url, "contains characters that are not allowed in a URL; percent-encode them")
    match = _URL.fullmatch(plain)
    if match is None:
        _refuse(url, "must be https://host[:port]/path?query, without a user, a password or a fragment")
    scheme = match["scheme"].lower()
    port = int(match["port"] or _PORTS[scheme])
    if port > 65_535:
        _refuse(url, "has an invalid port; use a number up to 65535")
    if _has_dot_segments(match["path"]):
        _refuse(url, "has . or .. in its path; write the resolved path")
    parsed = Url(scheme, _parse_host(url, match["host"].lower()), port, match["path"], match["query"])
    _check_host(parsed, allowlist, allow_plain=allow_plain)
    return parsed


def display_url(url: str) -> str:
    """Any text that should be a URL, for a message: without user, password and query, on one line, shortened."""
    text = re.split("[?#]", url, maxsplit=1)[0]
    scheme = _SCHEME.match(text)
    if "@" in text:
        text = (scheme[0] if scheme else "") + text.rpartition("@")[2]
    plain = ascii(text)[1:-1]
    return plain if len(plain) <= MAX_DISPLAY_LENGTH else f"{plain[:MAX_DISPLAY_LENGTH]}..."


def path_segment(value: str) -> str:
    """A value percent-encoded as one path segment; EgressRefused if it is empty or has dot segments."""
    if not value or _has_dot_segments(value):
        raise EgressRefused("a path segment is empty, or contains . or ..; send the plain name or id")
    return quote(value, safe="", errors="strict")


def check_header_value(value: str) -> str:
    """The value, if it can stand in a header; EgressRefused for a line break (header injection) and non-ASCII."""
    if not _HEADER.fullmatch(value):
        raise EgressRefused("a header value contains a line break or characters beyond printable ASCII; encode them")
    return value


def _has_dot_segments(path: str) -> bool:
    """Whether a path has `.` or `..` segments, also after repeated percent-decoding."""
    for _ in range(4):
        if any(segment in (".", "..") for segment in _PATH_SEPARATOR.split(path)):
            return True
        path, before = unquote(path), path
        if path == before:
            return False
    return True  # encoded more than three times: only an attacker does that


def _to_idna(url: str, authority: str) -> str:
    """The authority with its name IDNA-encoded (IDNA 2008 without mapping: full-width digits are refused)."""
    name, colon, port = authority.partition(":")
    idna = importlib.import_module("idna")  # comes with httpx2; few names need it
    try:
        return f"{idna.encode(name.lower(), strict=True).decode()}{colon}{port}"
    except UnicodeError:
        _refuse(url, "has a host that IDNA does not allow; write it in ASCII (xn--...)")


def _parse_host(url: str, host: str) -> str:
    address = parse_address(host)
    if address is not None:
        return str(address)
    if not is_hostname(host):
        _refuse(url, "has a host that is neither a hostname nor an IP address such as 192.0.2.1 or [2001:db8::1]")
    return host


def _check_host(url: Url, allowlist: EgressAllowlist, *, allow_plain: bool) -> None:
    """Check what the text of a host tells, before it is resolved."""
    address = parse_address(url.host)
    if address is not None:
        reason = allowlist.refusal_reason(url.host, url.port, address)
    else:
        allowed = not is_loopback(url.host) or allowlist.allows_loopback(url.host, url.port)
        reason = None if allowed else "this machine"
    if reason is not None:
        raise address_refused(url.host, url.port, reason, address)
    if url.scheme == "http" and not allow_plain and not is_loopback(url.host):
        _refuse(str(url), "is not encrypted; write https")


def address_refused(host: str, port: int, reason: str, address: IpAddress | None) -> EgressRefused:
    """The error for a forbidden address; it names the allowlist entry that would allow it."""
    entry = allowlist_entry(host, port, address)
    return EgressRefused(
        f"{host} leads to {reason}, and connections there are not allowed;"
        f" to allow it, the operator adds {entry!r} to {ALLOW_SETTING_SOURCES}"
    )


def _refuse(url: str, reason: str) -> NoReturn:
    raise EgressRefused(f"{display_url(url)} {reason}")
