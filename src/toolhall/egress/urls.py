"""Strict URL parsing: a URL that two parsers could read differently is refused."""

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
    """A URL that may be asked for, as far as its text tells; where a name leads is judged on connecting."""

    scheme: str
    host: str  # in lower case, xn-- where it was in other letters; an IPv6 address without brackets
    port: int
    path: str
    query: str | None

    @property
    def origin(self) -> str:
        """Whom it asks."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    @property
    def display(self) -> str:
        """For messages and logs: without the query, which may hold what is nobody's business."""
        return f"{self.origin}{self.path}"

    def __str__(self) -> str:
        return self.display if self.query is None else f"{self.display}?{self.query}"

    def __repr__(self) -> str:
        return f"Url({self.display!r})"


def parse_url(url: str, allowlist: EgressAllowlist = _EMPTY_ALLOWLIST) -> Url:
    """Read a URL; https, or plain http to this machine where the operator opened that. EgressRefused for all others."""
    if len(url) > MAX_URL_LENGTH:
        _refuse(url, f"is longer than {MAX_URL_LENGTH} letters")
    if not _SCHEME.match(url):
        _refuse(
            url,
            f"is not an https URL; plain http is only for hosts of this machine that are in {ALLOW_SETTING_SOURCES}",
        )
    host, _, _ = url.partition("//")[2].partition("/")
    plain = url if host.isascii() else url.replace(host, _to_idna(url, host), 1)
    if _INVALID_CHARACTER.search(plain):
        _refuse(url, "holds letters that have no place in a URL; percent-encode them")
    found = _URL.fullmatch(plain)
    if found is None:
        _refuse(url, "must be https://host[:port]/path?query, without a user, a password or a fragment")
    scheme = found["scheme"].lower()
    port = int(found["port"] or _PORTS[scheme])
    if port > 65_535:
        _refuse(url, "has no port; it is a number up to 65535")
    if _has_dot_segments(found["path"]):
        _refuse(url, "has . or .. in its path; write the path that is meant")
    read = Url(scheme, _parse_host(url, found["host"].lower()), port, found["path"], found["query"])
    _check_host(read, allowlist)
    return read


def display_url(url: str) -> str:
    """Any text that should have been a URL, for a message: no user, no password, no query, one line, not long."""
    text = re.split("[?#]", url, maxsplit=1)[0]
    scheme = _SCHEME.match(text)
    if "@" in text:
        text = (scheme[0] if scheme else "") + text.rpartition("@")[2]
    plain = ascii(text)[1:-1]
    return plain if len(plain) <= MAX_DISPLAY_LENGTH else f"{plain[:MAX_DISPLAY_LENGTH]}..."


def path_segment(value: str) -> str:
    """A value as one part of a path: encoded whole, and never a step to another part."""
    if not value or _has_dot_segments(value):
        raise EgressRefused("a part of a path is empty, or holds . or .. as a step; send the plain name or id")
    return quote(value, safe="", errors="strict")


def check_header_value(value: str) -> str:
    """A value that can stand in a header and ends there."""
    if not _HEADER.fullmatch(value):
        raise EgressRefused("a header's value holds a line break or other letters than printable ASCII; encode them")
    return value


def _has_dot_segments(path: str) -> bool:
    """Whether somebody who decodes it, once or again, finds a step to the same or the upper folder."""
    for _ in range(4):
        if any(step in (".", "..") for step in _PATH_SEPARATOR.split(path)):
            return True
        path, before = unquote(path), path
        if path == before:
            return False
    return True  # encoded again and again: there is no honest reason


def _to_idna(url: str, authority: str) -> str:
    """The authority with its name as DNS knows it (IDNA 2008, nothing mapped: full-width digits are no digits)."""
    name, colon, port = authority.partition(":")
    idna = importlib.import_module("idna")  # comes with httpx2; few names need it
    try:
        return f"{idna.encode(name.lower(), strict=True).decode()}{colon}{port}"
    except UnicodeError:
        _refuse(url, "has no name that DNS knows; write it in plain letters (xn--...)")


def _parse_host(url: str, host: str) -> str:
    address = parse_address(host)
    if address is not None:
        return str(address)
    if not is_hostname(host):
        _refuse(url, "has neither a name nor an address in its usual form, such as 192.0.2.1 or [2001:db8::1]")
    return host


def _check_host(url: Url, allowlist: EgressAllowlist) -> None:
    """What the host tells before anybody is asked where it is."""
    address = parse_address(url.host)
    if address is not None:
        why = allowlist.refusal_reason(url.host, url.port, address)
    else:
        open_ = not is_loopback(url.host) or allowlist.allows_loopback(url.host, url.port)
        why = None if open_ else "this machine"
    if why is not None:
        raise address_refused(url.host, url.port, why, address)
    if url.scheme == "http" and not is_loopback(url.host):
        _refuse(str(url), "is not encrypted; write https")


def address_refused(host: str, port: int, reason: str, address: IpAddress | None) -> EgressRefused:
    """The refusal of an address, with the entry that would open it."""
    entry = allowlist_entry(host, port, address)
    return EgressRefused(
        f"{host} leads to {reason}, and connections there are not allowed;"
        f" if that is meant, the operator adds {entry!r} to {ALLOW_SETTING_SOURCES}"
    )


def _refuse(url: str, reason: str) -> NoReturn:
    raise EgressRefused(f"{display_url(url)} {reason}")
