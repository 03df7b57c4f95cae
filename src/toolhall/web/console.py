"""`ConsoleRoutes`: `/`, which leads people to the console and programs to JSON, and the files of the console.

The console is a static client of the hall's API, made by `make console`. Where it was not built, `ToolsPage` is in its
place: a page made on the server that lists the tools and calls them.
"""

from collections.abc import Sequence

from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import ENDPOINTS, RequestRejected, base_url
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse
from toolhall.web.pages import SECURITY_HEADERS, is_form, redirect
from toolhall.web.public_url import PublicUrl
from toolhall.web.static_files import ASSETS_PATH, StaticFiles, packaged_files, send_asset, send_file
from toolhall.web.tools_page import CONSOLE_PATH, ToolsPage

CONSOLE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_SHELL_HEADERS = tuple(
    {
        **dict(SECURITY_HEADERS),
        b"content-security-policy": CONSOLE_POLICY.encode(),
        b"cache-control": b"no-cache",
    }.items()
)
PLAIN_PATH = f"{CONSOLE_PATH}plain"  # the page without JavaScript, also where the console was built
_VARY_ACCEPT = (b"vary", b"accept")
_ALLOW = (b"allow", b"GET, HEAD")
_HTML, _JSON = "text/html", "application/json"


class ConsoleRoutes:
    """The first page of a hall, its console and the assets of all its pages; all of it is public and without data."""

    def __init__(self, name: str, version: str, public_url: PublicUrl, tools_page: ToolsPage) -> None:
        self._name = name
        self._version = version
        self._public_url = public_url
        self._tools_page = tools_page

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes."""
        return {
            "/": {"GET": self.root, "HEAD": self.root, "POST": self.root_form},
            CONSOLE_PATH.rstrip("/"): {"GET": self.add_slash, "HEAD": self.add_slash},
            CONSOLE_PATH: {"GET": self.console, "HEAD": self.console, "POST": self._tools_page.post},
        }

    @property
    def _files(self) -> StaticFiles:
        return packaged_files()

    async def root(self, request: HttpRequest) -> None:
        """Send a person to the console, or what stands in for it, and a program the endpoints of the hall."""
        if not prefers_html(request.headers.get(b"accept", b"")):
            await request.reply(WireResponse(encode(self._description(request))), _VARY_ACCEPT)
        elif self._files.shell is None:
            await self._tools_page.get(request)
        else:
            await redirect(request, CONSOLE_PATH[1:].encode(), _VARY_ACCEPT)

    async def root_form(self, request: HttpRequest) -> None:
        """Take a form of the page that stands in for the console; a program is told what this path is for (405)."""
        if is_form(request):
            await self._tools_page.post(request)
        else:
            await request.refuse(405, "use GET or HEAD; the endpoints of the hall are listed here", _ALLOW)

    async def add_slash(self, request: HttpRequest) -> None:
        """Lead from `/console` to `/console/`, below any prefix."""
        await redirect(request, CONSOLE_PATH[1:].encode())

    async def console(self, request: HttpRequest) -> None:
        """Send the console, the page without JavaScript, or an asset; RequestRejected (404) for any other path."""
        path = request.path
        if path == PLAIN_PATH:
            await self._tools_page.get(request)
            return
        if path == CONSOLE_PATH:
            shell = self._files.shell
            if shell is None:
                await self._tools_page.get(request)
            else:
                await send_file(request, shell, _SHELL_HEADERS)
            return
        file = self._files.find(path.removeprefix(ASSETS_PATH)) if path.startswith(ASSETS_PATH) else None
        if file is None:
            raise RequestRejected(404, "the console has no such file; reload the page, which may be an older one")
        await send_asset(request, file)

    def _description(self, request: HttpRequest) -> dict[str, object]:
        url = self._public_url.configured or base_url(request.scope, request.headers)
        endpoints = {name.lower(): url + path for name, path in ENDPOINTS.items()}
        return {"name": self._name, "version": self._version, "endpoints": endpoints, "docs": f"{url}/openapi.json"}


def prefers_html(accept: bytes) -> bool:
    """Whether an Accept header prefers HTML to JSON, as that of every browser does."""
    weights: dict[str, float] = {}
    for part in accept.decode("latin-1").lower().split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        weights[kind] = _weight(parameters)

    def weight(kind: str) -> float:
        ranges = (kind, f"{kind.partition('/')[0]}/*", "*/*")
        return next((weights[each] for each in ranges if each in weights), 0.0)

    return weight(_HTML) > weight(_JSON)


def _weight(parameters: Sequence[str]) -> float:
    """Return the weight `q` of a media range; 1 without one, 0 for one that is no number."""
    given = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    try:
        return float(given)
    except ValueError:
        return 0.0
