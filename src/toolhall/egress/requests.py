"""What is checked of a request before it leaves: where it goes, and that no header says otherwise."""

import re

import httpx2

from toolhall.egress.addresses import Allowed
from toolhall.egress.errors import EgressRefused
from toolhall.egress.urls import Url, checked, header, shown

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_target(request: httpx2.Request, allowed: Allowed, base: Url | None) -> Url:
    """The URL that the request is for; EgressRefused for one that is closed, or outside of the base."""
    url = checked(str(request.url), allowed)
    port = request.url.port or {"http": 80, "https": 443}[url.scheme]
    if (url.host.encode(), url.port) != (request.url.raw_host, port):  # two readers, two opinions
        raise EgressRefused(f"{shown(str(request.url))} can be read in two ways; write it plainly")
    if request.method == "CONNECT":
        raise EgressRefused("CONNECT is not sent: whoever answers it could connect to anything")
    if base is not None and not _within(url, base):
        raise EgressRefused(f"{url.shown} is not below {base.shown}; use a client of its own for it")
    return url


def check_headers(request: httpx2.Request) -> None:
    """No line breaks, and no header that chooses another host or another protocol."""
    for name, value in request.headers.raw:
        if not _TOKEN.fullmatch(name):
            raise EgressRefused("a header's name holds other letters than a name may; use letters, digits and -")
        header(value.decode("latin-1"))
    if request.headers.get_list("host") != [request.url.netloc.decode("ascii")]:
        raise EgressRefused("the Host header is not the host of the URL; leave it out")
    if "upgrade" in request.headers:
        raise EgressRefused("only HTTP is spoken; leave out the Upgrade header")


def _within(url: Url, base: Url) -> bool:
    folder = base.path.rstrip("/")
    return url.origin == base.origin and (url.path == folder or url.path.startswith(f"{folder}/"))
