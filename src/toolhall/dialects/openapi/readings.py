"""REST forms of what is read: contents of a resource with their headers, messages of a prompt, completions, lists.

The body of `GET /resources/read` is the content itself, and whoever wrote it is not trusted by the pages of this
origin. So a browser neither guesses its type nor runs it: scripts and style sheets are served as plain text, because
pages may load those from their own origin; everything else that a browser could run has no origin (`sandbox`), and
only types that are merely shown are shown at all.
"""

import hashlib
import re
from collections.abc import Sequence

from toolhall.dialects.error_details import Headers
from toolhall.dialects.mcp.content import write_contents
from toolhall.dialects.mcp.prompts import write_prompt, write_prompt_result
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28
from toolhall.dialects.mcp.resources import write_resource
from toolhall.model.content import Resource
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import CompletedCall, Completion, Freshness, ToolPage, WireResponse

UNTRUSTED_HEADERS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"vary", b"authorization, cookie"),  # who reads decides what is read
)
ATTACHMENT = (b"content-disposition", b'attachment; filename="resource"')
COUNT_HEADER = b"toolhall-contents"  # how many there are, if the body is a list of them
BINARY_TYPE, TEXT_TYPE, JSON_TYPE = "application/octet-stream", "text/plain", "application/json"
_WORD = r"[A-Za-z0-9!#$&^_.+-]{1,127}"
_MIME_TYPE = re.compile(rf"{_WORD}/{_WORD}((?:; ?{_WORD}=(?:{_WORD}|\"[ !#-\[\]-~]{{0,127}}\")){{0,8}})", re.ASCII)
_CHARSET = re.compile(r"; ?charset=[^;]*", re.IGNORECASE)
# A page may run or apply these from its own origin, whatever other headers say, unless their type is another one.
_LOADED_BY_PAGES = re.compile(r"(?:text|application)/(?:.*script[0-9.]*|css|xsl|xslt\+xml|wasm|.*manifest.*)", re.ASCII)
_SHOWN = re.compile(
    r"text/plain|application/json|image/(?:png|jpeg|gif|webp|avif)|(?:audio|video)/[a-z0-9-]+", re.ASCII
)


def write_contents_response(finished: CompletedCall, cache_control: bytes) -> WireResponse:
    """Write what was read: one content as the body, several as JSON; with the headers that keep it harmless."""
    contents = [block for block in finished.result.content if isinstance(block, Resource)]
    if len(contents) == 1:
        (content,) = contents
        body = content.content if isinstance(content.content, bytes) else content.content.encode()
        media_type = content_type(content)
        extra: Headers = () if _SHOWN.fullmatch(_essence(media_type)) else (ATTACHMENT,)
    else:
        body, media_type = encode({"contents": [write_contents(each) for each in contents]}), JSON_TYPE
        extra = ((COUNT_HEADER, b"%d" % len(contents)),)
    typed = media_type.encode()
    etag = (b"etag", b'"%b"' % hashlib.sha256(typed + b"\n" + body).hexdigest()[:32].encode())
    cached = (b"cache-control", cache_control)
    return WireResponse(body, headers=((b"content-type", typed), etag, cached, *extra, *UNTRUSTED_HEADERS))


def content_type(content: Resource) -> str:
    """Return the Content-Type of one content: its MIME type, unless a page could load it or it is not well-formed."""
    is_text = isinstance(content.content, str)
    stated = content.mime_type or ""
    match = _MIME_TYPE.fullmatch(stated)
    if match is None:
        stated = TEXT_TYPE if is_text else BINARY_TYPE
    elif _LOADED_BY_PAGES.fullmatch(_essence(stated)):
        stated = TEXT_TYPE
    if not is_text:
        return stated
    stated = _CHARSET.sub("", stated)  # texts are sent in UTF-8, whatever was stated
    return f"{stated}; charset=utf-8" if stated.lower().startswith("text/") else stated


def write_resource_page(page: ToolPage, *, templates: bool) -> bytes:
    """Write a page of resources or of templates."""
    documents = [write_resource(tool, REVISION_2026_07_28) for tool in page.tools]
    return _page("resourceTemplates" if templates else "resources", documents, page)


def write_prompt_page(page: ToolPage) -> bytes:
    """Write a page of prompts, each with the schema of its arguments, which may be sent as JSON values here."""
    documents = [{**write_prompt(tool, REVISION_2026_07_28), "inputSchema": tool.input} for tool in page.tools]
    return _page("prompts", documents, page)


def write_messages(finished: CompletedCall) -> JsonObject:
    """Write the messages of a prompt."""
    return write_prompt_result(finished.tool, finished.result)


def write_completion(completion: Completion) -> JsonObject:
    """Write completions, and how many there are in all."""
    values, total = list(completion.values), completion.total
    return {"values": values, "total": total, "hasMore": total > len(values)}


def cache_control(freshness: Freshness) -> bytes:
    """Return for how long what was read may be kept, and by whom."""
    if not freshness.keepable:
        return b"no-store"
    if freshness.seconds < 1:
        return b"private, no-cache"
    return b"%b, max-age=%d" % (b"public" if freshness.shared else b"private", int(freshness.seconds))


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _page(member: str, documents: Sequence[JsonObject], page: ToolPage) -> bytes:
    more = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
    return encode({member: documents, **more})
