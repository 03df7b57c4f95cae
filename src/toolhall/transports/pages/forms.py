"""Forms that a browser sends: only from our own pages, only of a form's type, and not large."""

from urllib.parse import parse_qsl

from toolhall.transports.exchange import Exchange
from toolhall.transports.pages.place import Place
from toolhall.transports.shield import Turned

MOST_BYTES = 64 * 1024
MOST_FIELDS = 10
_KIND = b"application/x-www-form-urlencoded"


async def form_of(exchange: Exchange, place: Place) -> dict[str, str]:
    """The fields of a form; Turned for whatever another site's page made the browser send."""
    _refuse_strangers(exchange, place)
    headers = exchange.headers
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != _KIND:
        raise Turned(415, f"send the form as Content-Type: {_KIND.decode()}")
    if b"content-encoding" in headers:
        raise Turned(415, "send the form without Content-Encoding")
    body = await _body(exchange)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Turned(400, f"this is no form of at most {MOST_FIELDS} fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Turned(400, "a field of the form is there twice")
    return fields


def _refuse_strangers(exchange: Exchange, place: Place) -> None:
    """Browsers say where a form comes from; one that says nothing at all is no browser, or a very old one."""
    site, origin = exchange.headers.get(b"sec-fetch-site"), exchange.headers.get(b"origin")
    own = place.origin(exchange.headers).encode("latin-1")
    if site not in (None, b"same-origin") or origin not in (None, own) or (site is None and origin is None):
        raise Turned(403, "this form was not sent by a page of this hall; open the page, and decide there")


async def _body(exchange: Exchange) -> bytes:
    length = exchange.headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MOST_BYTES:
        raise Turned(413, f"the form is larger than {MOST_BYTES} bytes")
    body, more = b"", True
    while more:
        message = await exchange.receive()
        if message["type"] == "http.disconnect":
            raise Turned(400, "the form did not arrive")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            raise Turned(413, f"the form is larger than {MOST_BYTES} bytes")
    return body
