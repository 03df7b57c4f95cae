"""Requests and responses of pages: form parsing, security headers, redirects and status replies.

`read_form` accepts only same-origin form posts of bounded size. Every page has a strict Content-Security-Policy.
"""

from typing import TypeAlias
from urllib.parse import parse_qsl, quote

from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestRejected
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse
from toolhall.stores.accounts import AccountLink
from toolhall.stores.approvals import Approval
from toolhall.web.html import Page, PageLinks, render
from toolhall.web.public_url import PublicUrl
from toolhall.web.static_files import ASSETS_PATH, SCRIPT, STYLE, packaged_files

ResponseHeaders: TypeAlias = tuple[tuple[bytes, bytes], ...]
STATUS_SUFFIX = "/status"
MAX_FORM_BYTES = 64 * 1024
MAX_FORM_FIELDS = 10
_FORM_TYPE = b"application/x-www-form-urlencoded"
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; font-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# `same-origin` and not `no-referrer`: with the latter, browsers send no Origin with a form of this page.
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
# OXP's status words for an authorization. The id is the only proof that the request brings, so this is all it learns.
_STATUS_BY_STATE = {
    "pending": "pending",
    "claimed": "pending",
    "approved": "completed",
    "consumed": "completed",
    "completed": "completed",
}


async def send_page(
    request: HttpRequest,
    prefix: str,
    status: int,
    page: Page,
    *extra: tuple[bytes, bytes],
    headers: ResponseHeaders = SECURITY_HEADERS,
) -> None:
    """Send a page with the security headers; `prefix` begins the paths of the hall, as the browser sees them."""
    body = render(page, _page_links(prefix))
    entity = ((b"content-type", b"text/html; charset=utf-8"), (b"content-length", b"%d" % len(body)))
    await request.send_headers(status, [*entity, *headers, *extra])
    await request.send_body(body, more=False)


async def redirect_to_self(request: HttpRequest, prefix: str, *extra: tuple[bytes, bytes]) -> None:
    """Answer an accepted form: the browser gets the same page by GET, which it can repeat safely."""
    await redirect(request, (prefix + quote(request.path)).encode(), *extra)


async def redirect(request: HttpRequest, location: bytes, *extra: tuple[bytes, bytes]) -> None:
    """Answer 303 with this location, which is sent as it is."""
    await request.send_headers(303, [(b"location", location), (b"content-length", b"0"), *SECURITY_HEADERS, *extra])
    await request.send_body(b"", more=False)


async def send_status(request: HttpRequest, record: Approval | AccountLink | None) -> None:
    """Send `pending`, `completed` or `failed` as JSON; 404 and `failed` for an unknown id."""
    status = "failed" if record is None else _STATUS_BY_STATE.get(record.state, "failed")
    await request.reply(
        WireResponse(encode({"status": status}), 404 if record is None else 200), (b"cache-control", b"no-store")
    )


def is_form(request: HttpRequest) -> bool:
    """Whether the request says that its body is a form."""
    return request.headers.get(b"content-type", b"").split(b";")[0].strip().lower() == _FORM_TYPE


async def read_form(request: HttpRequest, public_url: PublicUrl) -> dict[str, str]:
    """Return the fields of a form; RequestRejected unless a page of this hall made the browser send it."""
    _check_same_origin(request, public_url)
    headers = request.headers
    if not is_form(request):
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


def _page_links(prefix: str) -> PageLinks:
    assets, files = prefix + ASSETS_PATH, packaged_files()
    return PageLinks(f"{prefix}/", assets + files.page_asset(STYLE), assets + files.page_asset(SCRIPT))


def _check_same_origin(request: HttpRequest, public_url: PublicUrl) -> None:
    """Check Sec-Fetch-Site and Origin; a request with neither is rejected, because every current browser sends one."""
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
