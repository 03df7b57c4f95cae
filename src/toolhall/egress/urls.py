"""URLs from outside, read strictly: one that two readers could understand differently is refused."""

import importlib
import re
from typing import NoReturn
from urllib.parse import quote, unquote

import msgspec

from toolhall.egress.addresses import OPENED_IN, Address, Allowed, entry_for, is_loopback, is_name, literal
from toolhall.egress.errors import EgressRefused

MOST_LETTERS = 8_192
MOST_SHOWN = 200
_NOTHING = Allowed()
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"(?i)https?://")
_UNCLEAR = re.compile(r"[^\x21-\x7e]|[\"<>\\]|%(?![0-9A-Fa-f]{2})")
_URL = re.compile(
    r"(?i)(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[^\[\]:/?#@]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>(?:/[^?#]*)?)(?:\?(?P<query>[^#]*))?"
)
_HEADER = re.compile(r"[\t\x20-\x7e]*")
_STEPS = re.compile(r"[/\\]")


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
    def shown(self) -> str:
        """For messages and logs: without the query, which may hold what is nobody's business."""
        return f"{self.origin}{self.path}"

    def __str__(self) -> str:
        return self.shown if self.query is None else f"{self.shown}?{self.query}"

    def __repr__(self) -> str:
        return f"Url({self.shown!r})"


def checked(url: str, allowed: Allowed = _NOTHING) -> Url:
    """Read a URL; https, or plain http to this machine where the operator opened that. EgressRefused for all others."""
    if len(url) > MOST_LETTERS:
        _refuse(url, f"is longer than {MOST_LETTERS} letters")
    if not _SCHEME.match(url):
        _refuse(url, f"is not an https URL; plain http is only for hosts of this machine that are in {OPENED_IN}")
    host, _, _ = url.partition("//")[2].partition("/")
    plain = url if host.isascii() else url.replace(host, _in_ascii(url, host), 1)
    if _UNCLEAR.search(plain):
        _refuse(url, "holds letters that have no place in a URL; percent-encode them")
    found = _URL.fullmatch(plain)
    if found is None:
        _refuse(url, "must be https://host[:port]/path?query, without a user, a password or a fragment")
    scheme = found["scheme"].lower()
    port = int(found["port"] or _PORTS[scheme])
    if port > 65_535:
        _refuse(url, "has no port; it is a number up to 65535")
    if _climbs(found["path"]):
        _refuse(url, "has . or .. in its path; write the path that is meant")
    read = Url(scheme, _host(url, found["host"].lower()), port, found["path"], found["query"])
    _check_host(read, allowed)
    return read


def shown(url: str) -> str:
    """Any text that should have been a URL, for a message: no user, no password, no query, one line, not long."""
    text = re.split("[?#]", url, maxsplit=1)[0]
    scheme = _SCHEME.match(text)
    if "@" in text:
        text = (scheme[0] if scheme else "") + text.rpartition("@")[2]
    plain = ascii(text)[1:-1]
    return plain if len(plain) <= MOST_SHOWN else f"{plain[:MOST_SHOWN]}..."


def segment(value: str) -> str:
    """A value as one part of a path: encoded whole, and never a step to another part."""
    if not value or _climbs(value):
        raise EgressRefused("a part of a path is empty, or holds . or .. as a step; send the plain name or id")
    return quote(value, safe="", errors="strict")


def header(value: str) -> str:
    """A value that can stand in a header and ends there."""
    if not _HEADER.fullmatch(value):
        raise EgressRefused("a header's value holds a line break or other letters than printable ASCII; encode them")
    return value


def _climbs(path: str) -> bool:
    """Whether somebody who decodes it, once or again, finds a step to the same or the upper folder."""
    for _ in range(4):
        if any(step in (".", "..") for step in _STEPS.split(path)):
            return True
        path, before = unquote(path), path
        if path == before:
            return False
    return True  # encoded again and again: there is no honest reason


def _in_ascii(url: str, authority: str) -> str:
    """The authority with its name as DNS knows it (IDNA 2008, nothing mapped: full-width digits are no digits)."""
    name, colon, port = authority.partition(":")
    idna = importlib.import_module("idna")  # comes with httpx2; few names need it
    try:
        return f"{idna.encode(name.lower(), strict=True).decode()}{colon}{port}"
    except UnicodeError:
        _refuse(url, "has no name that DNS knows; write it in plain letters (xn--...)")


def _host(url: str, host: str) -> str:
    address = literal(host)
    if address is not None:
        return str(address)
    if not is_name(host):
        _refuse(url, "has neither a name nor an address in its usual form, such as 192.0.2.1 or [2001:db8::1]")
    return host


def _check_host(url: Url, allowed: Allowed) -> None:
    """What the host tells before anybody is asked where it is."""
    address = literal(url.host)
    if address is not None:
        why = allowed.why_not(url.host, url.port, address)
    else:
        open_ = not is_loopback(url.host) or allowed.opens_loopback(url.host, url.port)
        why = None if open_ else "this machine"
    if why is not None:
        raise closed(url.host, url.port, why, address)
    if url.scheme == "http" and not is_loopback(url.host):
        _refuse(str(url), "is not encrypted; write https")


def closed(host: str, port: int, why: str, address: Address | None) -> EgressRefused:
    """The refusal of an address, with the entry that would open it."""
    entry = entry_for(host, port, address)
    return EgressRefused(
        f"{host} leads to {why}, and connections there are not allowed;"
        f" if that is meant, the operator adds {entry!r} to {OPENED_IN}"
    )


def _refuse(url: str, why: str) -> NoReturn:
    raise EgressRefused(f"{shown(url)} {why}")
