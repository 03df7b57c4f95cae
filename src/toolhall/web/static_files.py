"""`StaticFiles`: the built console and the style sheet and script of the pages, with their digests and encodings.

The console's files are in `toolhall/console/`, where `make console` puts them: `index.html`, and everything else below
`-/DIGEST/`. Texts are there as `.gz`, and as `.br` if there was room; a client that takes neither gets them
decompressed. A package that was built without Node has no such folder. Nothing is read before the first request for a
page.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from toolhall.http.request import HttpRequest

ASSETS_PATH = "/console/-/"
STYLE, SCRIPT = "page.css", "page.js"
SHELL = "index.html"
_TOKENS = "tokens.css"  # a copy of console/src/style/tokens.css, which a test compares
_PAGE_ASSETS: Mapping[str, tuple[str, ...]] = {STYLE: (_TOKENS, STYLE), SCRIPT: (SCRIPT,)}  # each of these parts
_FONTS = {"Inter": ("inter-latin-wght-normal", "100 900"), "JetBrains Mono": ("jetbrains-mono-latin", "400")}
_CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
_SUFFIXES = {".br": "br", ".gz": "gzip"}
_PREFERRED = ("br", "gzip")
_DIGEST_DIGITS = 16
_ASSET_HEADERS = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class StaticFile(msgspec.Struct, frozen=True):
    """One file by content encoding; the empty encoding is the file itself."""

    content_type: str
    digest: str
    variants: Mapping[str, bytes]

    def variant_for(self, accepted: bytes) -> tuple[str, bytes]:
        """Return the best encoding that an Accept-Encoding header takes, and the bytes."""
        takes = _accepted_encodings(accepted)
        encoding = next((each for each in _PREFERRED if each in takes and each in self.variants), "")
        return encoding, self.variants[encoding]


class StaticFiles:
    """The files of the console, if it was built, and of the pages; each is read when it is first asked for."""

    def __init__(self, console: Traversable, assets: Traversable) -> None:
        self._console = console
        self._assets = assets
        self._read = False
        self._files: dict[str, StaticFile] = {}  # by their path below ASSETS_PATH
        self._shell: StaticFile | None = None
        self._page_paths: dict[str, str] = {}

    @property
    def shell(self) -> StaticFile | None:
        """The console's one HTML file; None if the console was not built."""
        self._read_all()
        return self._shell

    def find(self, path: str) -> StaticFile | None:
        """Return the asset at `DIGEST/NAME`."""
        self._read_all()
        return self._files.get(path)

    def page_asset(self, name: str) -> str:
        """Return the path of `page.css` or `page.js` below ASSETS_PATH; it changes with the content."""
        self._read_all()
        return self._page_paths[name]

    def _read_all(self) -> None:
        if self._read:
            return
        console = dict(_walk(self._console)) if self._console.is_dir() else {}
        built = _group_variants(console)
        self._shell = built.pop(SHELL, None)
        self._files = {path.removeprefix("-/"): file for path, file in built.items() if path.startswith("-/")}
        for name, parts in _PAGE_ASSETS.items():
            body = b"\n".join((self._assets / part).read_bytes() for part in parts)
            if name == STYLE:
                body = b"".join(_font_face(family, self._files) for family in _FONTS) + body
            file = _static_file(name, {"": body})
            self._page_paths[name] = f"{file.digest}/{name}"
            self._files[self._page_paths[name]] = file
        self._read = True


@cache
def packaged_files() -> StaticFiles:
    """Return the files that came with this package."""
    package = files("toolhall")
    return StaticFiles(package / "console", package / "web" / "assets")


async def send_asset(request: HttpRequest, file: StaticFile) -> None:
    """Send a file whose address contains its digest, so that it never changes."""
    await send_file(request, file, _ASSET_HEADERS)


async def send_file(request: HttpRequest, file: StaticFile, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    """Send a file in the best encoding that the client takes; 304 if the client has it already."""
    encoding, body = file.variant_for(request.headers.get(b"accept-encoding", b""))
    etag = f'"{file.digest}{encoding and f"-{encoding}"}"'.encode()
    common = [(b"etag", etag), (b"vary", b"accept-encoding"), *headers]
    request.release_slot()  # nothing is computed any more, and a browser asks for several files at once
    if request.has_entity(etag):
        await request.send_headers(304, common)
        await request.send_body(b"", more=False)
        return
    entity = [(b"content-type", file.content_type.encode()), (b"content-length", b"%d" % len(body))]
    if encoding:
        entity.append((b"content-encoding", encoding.encode()))
    await request.send_headers(200, [*entity, *common])
    await request.send_body(b"" if request.method == "HEAD" else body, more=False)


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        else:
            yield f"{prefix}{each.name}", each.read_bytes()


def _group_variants(console: Mapping[str, bytes]) -> dict[str, StaticFile]:
    """Return the files by their paths without `.br` and `.gz`."""
    variants: dict[str, dict[str, bytes]] = {}
    for path, body in console.items():
        suffix = path[-3:]
        if suffix in _SUFFIXES:
            variants.setdefault(path[:-3], {})[_SUFFIXES[suffix]] = body
        else:
            variants.setdefault(path, {})[""] = body
    for each in variants.values():
        if "" not in each and "gzip" in each:
            each[""] = gzip.decompress(each["gzip"])
    return {path: _static_file(path, each) for path, each in variants.items() if "" in each}


def _static_file(path: str, variants: Mapping[str, bytes]) -> StaticFile:
    digest = hashlib.sha256(variants[""]).hexdigest()[:_DIGEST_DIGITS]
    return StaticFile(_CONTENT_TYPES.get(path.rpartition(".")[2], "application/octet-stream"), digest, variants)


def _font_face(family: str, built: Mapping[str, StaticFile]) -> bytes:
    """Return the rule that loads a font of the console into the pages; nothing if the console was not built."""
    start, weights = _FONTS[family]
    path = next((each for each in sorted(built) if each.endswith(".woff2") and f"/{start}" in each), None)
    if path is None:
        return b""
    return (
        f'@font-face {{ font-family: "{family}"; font-weight: {weights}; font-display: swap;'
        f' src: url("../{path}") format("woff2"); }}\n'
    ).encode()


def _accepted_encodings(header: bytes) -> set[str]:
    """Return the encodings of an Accept-Encoding header whose weight is not zero."""
    accepted: set[str] = set()
    for part in header.decode("latin-1").lower().split(","):
        name, _, weight = part.replace(" ", "").partition(";q=")
        if weight.strip("0.") or not weight:
            accepted.add(name)
    return accepted
