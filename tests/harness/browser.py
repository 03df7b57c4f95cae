"""A browser with its user, who opens the hall's page, goes on to the provider's, and answers there."""

import re
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

from tests.harness.patience import patience

_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


class Browser:
    """Keeps cookies and follows redirects, as a browser does."""

    def __init__(self) -> None:
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()), ProxyHandler({}))

    def connect(self, url: str, answer: str = "allow") -> str:
        """All that a person does after being given the address of a page; what the last page says."""
        ours, page = self._sent(Request(url))
        first = page.partition("</form>")[0]  # the second one signs out
        theirs, page = self._sent(_posted(ours, _hidden(first)))
        assert "Stand-in for Google" in page, page
        _, last = self._sent(_posted(f"http://{urlsplit(theirs).netloc}/authorize", _hidden(page) | {"answer": answer}))
        return last

    def _sent(self, request: Request) -> tuple[str, str]:
        """Where this leads in the end, and the page there."""
        try:
            reply: HTTPResponse | HTTPError = self._opener.open(request, timeout=patience())
        except HTTPError as refused:
            reply = refused
        with reply:
            return reply.url, reply.read().decode()


def _hidden(page: str) -> dict[str, str]:
    return dict(_HIDDEN.findall(page))


def _posted(url: str, form: dict[str, str]) -> Request:
    parts = urlsplit(url)
    request = Request(url, urlencode(form).encode())
    request.add_unredirected_header("Origin", f"{parts.scheme}://{parts.netloc}")  # only with the form itself
    return request
