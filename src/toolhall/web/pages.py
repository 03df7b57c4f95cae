"""Requests and responses of pages: form parsing, security headers, redirects, status replies and static assets.

`read_form` accepts only same-origin form posts of bounded size. Every page has a strict Content-Security-Policy.
"""

from functools import cache
from html import escape
from importlib.resources import files
from typing import TypeAlias
from urllib.parse import parse_qsl, quote

from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestRejected
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse
from toolhall.stores.accounts import AccountLink
from toolhall.stores.approvals import Approval
from toolhall.web.public_url import PublicUrl

_ASSETS_PATH = "/approve/-/"
_HTML_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="{assets}page.css">
<link rel="icon" href="data:,">
<script src="{assets}page.js" defer></script>
"""
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
ResponseHeaders: TypeAlias = tuple[tuple[bytes, bytes], ...]
# `same-origin` and not `no-referrer`: with that, browsers would not say that a form comes from here.
SECURITY_HEADERS: ResponseHeaders = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"publickey-credentials-get=(self), publickey-credentials-create=(self)"),
    (b"cache-control", b"no-store"),
)


async def send_page(
    request: HttpRequest,
    prefix: str,
    status: int,
    page: bytes,
    *extra: tuple[bytes, bytes],
    headers: ResponseHeaders = SECURITY_HEADERS,
) -> None:
    """Send it with everything that keeps a browser from doing more with it than showing it.

    `prefix` is what the paths of the hall begin with, as the browser sees them.
    """
    page = _HTML_HEAD.format(assets=escape(prefix) + _ASSETS_PATH).encode() + page
    kind = ((b"content-type", b"text/html; charset=utf-8"), (b"content-length", b"%d" % len(page)))
    await request.send_headers(status, [*kind, *headers, *extra])
    await request.send_body(page, more=False)


async def redirect_to_self(request: HttpRequest, prefix: str, *extra: tuple[bytes, bytes]) -> None:
    """After a form was taken: look at its page again, by an ordinary request that can be repeated."""
    await redirect(request, (prefix + quote(request.path)).encode(), *extra)


async def redirect(request: HttpRequest, location: bytes, *extra: tuple[bytes, bytes]) -> None:
    """The same to any address, which is sent as it is."""
    await request.send_headers(303, [(b"location", location), (b"content-length", b"0"), *SECURITY_HEADERS, *extra])
    await request.send_body(b"", more=False)


STATUS_SUFFIX = "/status"
# OXP's words for an authorization; the id is all that whoever asks has, so it is told no more than this.
_STATUS_BY_STATE = {
    "pending": "pending",
    "claimed": "pending",
    "approved": "completed",
    "consumed": "completed",
    "completed": "completed",
}


async def send_status(request: HttpRequest, found: Approval | AccountLink | None) -> None:
    """Pending, completed or failed; an id that is not there has failed too."""
    said = "failed" if found is None else _STATUS_BY_STATE.get(found.state, "failed")
    await request.reply(
        WireResponse(encode({"status": said}), 404 if found is None else 200), (b"cache-control", b"no-store")
    )


_ASSETS_PACKAGE = "toolhall.web"
_ASSET_TYPES = {"page.css": b"text/css; charset=utf-8", "page.js": b"text/javascript; charset=utf-8"}


async def send_asset(request: HttpRequest, name: str) -> None:
    """One of the files; Turned if there is none of this name."""
    kind = _ASSET_TYPES.get(name)
    if kind is None:
        raise RequestRejected(404, f"there is nothing here but {' and '.join(_ASSET_TYPES)}")
    body = _read_asset(name)
    headers = [
        (b"content-type", kind),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-cache"),
    ]
    await request.send_headers(200, headers)
    await request.send_body(body, more=False)


@cache
def _read_asset(name: str) -> bytes:
    return (files(_ASSETS_PACKAGE) / "assets" / name).read_bytes()


MAX_FORM_BYTES = 64 * 1024
MAX_FORM_FIELDS = 10
_FORM_TYPE = b"application/x-www-form-urlencoded"


async def read_form(request: HttpRequest, public_url: PublicUrl) -> dict[str, str]:
    """The fields of a form; Turned for whatever another site's page made the browser send."""
    _check_same_origin(request, public_url)
    headers = request.headers
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != _FORM_TYPE:
        raise RequestRejected(415, f"send the form as Content-Type: {_FORM_TYPE.decode()}")
    if b"content-encoding" in headers:
        raise RequestRejected(415, "send the form without Content-Encoding")
    body = await _read_form_body(request)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise RequestRejected(400, f"this is no form of at most {MAX_FORM_FIELDS} fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise RequestRejected(400, "a field of the form is there twice")
    return fields


def _check_same_origin(request: HttpRequest, public_url: PublicUrl) -> None:
    """Browsers say where a form comes from; one that says nothing at all is no browser, or a very old one."""
    site, origin = request.headers.get(b"sec-fetch-site"), request.headers.get(b"origin")
    own = public_url.origin(request.headers).encode("latin-1")
    if site not in (None, b"same-origin") or origin not in (None, own) or (site is None and origin is None):
        raise RequestRejected(403, "this form was not sent by a page of this hall; open the page, and decide there")


async def _read_form_body(request: HttpRequest) -> bytes:
    length = request.headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MAX_FORM_BYTES:
        raise RequestRejected(413, f"the form is larger than {MAX_FORM_BYTES} bytes")
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise RequestRejected(400, "the form did not arrive")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_FORM_BYTES:
            raise RequestRejected(413, f"the form is larger than {MAX_FORM_BYTES} bytes")
    return body
