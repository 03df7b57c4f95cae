"""`/` leads people to the console and programs to JSON; the files of the console, and the page in its place."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.harness import asgi_client
from tests.harness.http_client import Response
from tests.unit.web.browser_client import Browser
from toolhall import Config, Toolhall, tool
from toolhall.http.request_guard import ENDPOINTS
from toolhall.web import static_files
from toolhall.web.console import prefers_html
from toolhall.web.static_files import StaticFiles

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
ASSETS = Path(static_files.__file__).parent / "assets"
SCRIPT = b"document.title = 'ready'\n" * 40
SHELL = b'<!doctype html><script type="module" src="./-/0123456789abcdef/console.js"></script>'
FONT = b"wOF2 and more"


@tool(effect="reads")
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


def lay_out(folder: Path, *, built: bool) -> Path:
    """The data files of a package, with or without a console."""
    shutil.copytree(ASSETS, folder / "web/assets")
    if built:
        assets = folder / "console/-/0123456789abcdef"
        assets.mkdir(parents=True)
        (folder / "console/index.html.gz").write_bytes(gzip.compress(SHELL))
        (assets / "console.js.gz").write_bytes(gzip.compress(SCRIPT))
        (assets / "console.js.br").write_bytes(b"brotli of it")
        (assets / "inter-latin-wght-normal.woff2").write_bytes(FONT)
    return folder


@pytest.fixture(params=["built", "not built"])
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether the console is in the package."""
    built = request.param == "built"
    folder = lay_out(tmp_path, built=built)

    def find(_: str) -> Path:
        return folder

    monkeypatch.setattr(static_files, "files", find)
    static_files.packaged_files.cache_clear()
    yield built
    static_files.packaged_files.cache_clear()


built = pytest.mark.parametrize("package", ["built"], indirect=True)
not_built = pytest.mark.parametrize("package", ["not built"], indirect=True)


@pytest.fixture
def hall(package: bool) -> Iterator[Toolhall]:
    with Toolhall(greet, config=Config(name="Hall of tests")) as hall:
        yield hall


async def get(hall: Toolhall, path: str, method: str = "GET", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await asgi_client.send(hall, method, path, b"", {"host": "localhost:8000", **named}, "127.0.0.1")


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (CHROMIUM, True),
        ("text/html", True),
        ("Text/HTML; charset=utf-8, */*;q=0.1", True),
        ("text/*, application/json;q=0.5", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("application/json, text/html;q=0.9", False),
        ("text/html;q=0, */*", False),
        ("text/html;q=much", False),
        ("application/json, text/event-stream", False),
    ],
)
def test_prefers_html_by_weight_and_prefers_json_if_equal(accept: str, html: bool) -> None:
    assert prefers_html(accept.encode()) is html


@built
async def test_root_leads_a_browser_to_the_console_relatively(hall: Toolhall) -> None:
    reply = await get(hall, "/", accept=CHROMIUM)
    assert (reply.status, reply.headers["location"], reply.headers["vary"]) == (303, "console/", "accept")
    reply = await get(hall, "/console", accept=CHROMIUM)
    assert (reply.status, reply.headers["location"]) == (303, "console/")


@pytest.mark.parametrize("profile", ["local", "server"])
async def test_root_tells_a_program_where_clients_connect_and_nothing_of_management(
    profile: Literal["local", "server"],
) -> None:
    """To strangers, too."""
    config = Config(profile=profile, name="Hall of tests")
    with Toolhall(greet, config=config) as hall:
        for path, status in (("/", 200), ("/nothing", 404 if profile == "local" else 401)):
            reply = await get(hall, path, accept="application/json")
            assert reply.status == status
            assert b"/api" not in reply.body
        told = json.loads((await get(hall, "/")).body)
    assert told["name"] == "Hall of tests"
    assert told["endpoints"] == {name.lower(): f"http://localhost:8000{path}" for name, path in ENDPOINTS.items()}
    assert set(told) == {"name", "version", "endpoints", "docs"}


async def test_root_names_public_addresses() -> None:
    config = Config(public_url="https://tools.example/hall", allowed_hosts=("localhost",))
    with Toolhall(greet, config=config) as hall:
        told = json.loads((await get(hall, "/")).body)
    assert told["endpoints"]["mcp"] == "https://tools.example/hall/mcp"


@pytest.mark.threat("B26")
@built
async def test_shell_has_the_policy_of_the_console_exactly(hall: Toolhall) -> None:
    """No `unsafe-*`, no host and no nonce; nothing in the page depends on who asks."""
    reply = await get(hall, "/console/")
    assert (reply.status, reply.body) == (200, SHELL)
    assert reply.headers["content-security-policy"] == POLICY
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in reply.headers
    again = await get(hall, "/console/", if_none_match=f'"other", {reply.headers["etag"]}')
    assert (again.status, again.body) == (304, b"")


@pytest.mark.threat("B26")
@built
async def test_asset_is_immutable_and_compressed_for_those_who_take_it(hall: Toolhall) -> None:
    """Each file has one type, which browsers may not guess anew."""
    path = "/console/-/0123456789abcdef/console.js"
    found: dict[str, tuple[str | None, str, bytes]] = {}
    for accepted in ("", "gzip, deflate, br", "gzip", "br;q=0, gzip;q=0.5", "identity", "br;q=0"):
        reply = await get(hall, path, **({"accept_encoding": accepted} if accepted else {}))
        assert reply.status == 200
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert reply.headers["vary"] == "accept-encoding"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
        found[accepted] = (reply.headers.get("content-encoding"), reply.headers["etag"], reply.body)
    assert {accepted: encoding for accepted, (encoding, _, _) in found.items()} == {
        "": None,
        "gzip, deflate, br": "br",
        "gzip": "gzip",
        "br;q=0, gzip;q=0.5": "gzip",
        "identity": None,
        "br;q=0": None,
    }
    assert found[""][2] == SCRIPT
    assert gzip.decompress(found["gzip"][2]) == SCRIPT
    assert len({etag for _, etag, _ in found.values()}) == 3, "each encoding has its own"
    head = await get(hall, path, "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(SCRIPT)))
    font = await get(hall, "/console/-/0123456789abcdef/inter-latin-wght-normal.woff2", accept_encoding="br")
    assert (font.body, font.headers["content-type"]) == (FONT, "font/woff2")


@pytest.mark.threat("B26")
@pytest.mark.parametrize(
    "path",
    [
        "-/0123456789abcdef/other.js",
        "-/fedcba9876543210/console.js",
        "-/0123456789abcdef/console.js.gz",
        "-/../index.html",
        "-/%2e%2e/index.html",
        "index.html",
        "-/",
        "x",
    ],
)
@built
async def test_console_has_no_other_files(hall: Toolhall, path: str) -> None:
    """A path is looked up as it is; none leads out of the package."""
    assert (await get(hall, f"/console/{path}")).status == 404


async def test_page_assets_change_their_address_with_their_content(package: bool, tmp_path: Path) -> None:
    before = StaticFiles(tmp_path / "console", tmp_path / "web/assets").page_asset("page.css")
    (tmp_path / "web/assets/page.css").write_text("body { color: red }")
    after = StaticFiles(tmp_path / "console", tmp_path / "web/assets")
    file = after.find(after.page_asset("page.css"))
    assert file is not None
    assert before != after.page_asset("page.css")
    assert after.page_asset("page.css") == f"{hashlib.sha256(file.variants['']).hexdigest()[:16]}/page.css"
    assert (b"../0123456789abcdef/inter-latin-wght-normal.woff2" in file.variants[""]) is package


@not_built
async def test_page_in_place_of_the_console_lists_tools_and_calls_one_without_a_script(hall: Toolhall) -> None:
    browser = Browser(hall)
    for path in ("/", "/console/", "/console/plain"):
        page = await browser.get(path, accept=CHROMIUM)
        assert page.status == 200
        assert "make console" in page.text
        assert "test_console.greet" in page.text
        assert "http://localhost:8000/mcp" in page.text
        assert "<script" not in page.body
        opened = await browser.get(f"{path}?tool=test_console.greet", accept=CHROMIUM)
        fields = {"action": "call", "tool": "test_console.greet", "arguments": '{"name": "<b>Ada</b>"}'}
        done = await browser.post(path, {**fields, "word": opened.word("call")})
        assert (done.status, "Hello, &lt;b&gt;Ada&lt;/b&gt;" in done.body) == (200, True)
        refused = await browser.post(path, {**fields, "word": "guessed"})
        assert (refused.status, "Hello" in refused.body) == (403, False)


@not_built
@pytest.mark.parametrize(
    ("tool_name", "arguments", "status", "words"),
    [
        ("test_console.greet", "{}", 422, "name"),
        ("test_console.greet", "{", 400, "JSON"),
        ("test_console.greet", "[]", 400, "must be a JSON object"),
        ("test_console.greet", '{"name": 1}', 422, "/name"),
        ("test_console.other", "{}", 404, "no such tool"),
    ],
)
async def test_page_in_place_of_the_console_says_what_was_wrong(
    hall: Toolhall, tool_name: str, arguments: str, status: int, words: str
) -> None:
    browser = Browser(hall)
    opened = await browser.get("/console/?tool=test_console.greet")
    fields = {"action": "call", "tool": tool_name, "arguments": arguments, "word": opened.word("call")}
    done = await browser.post("/console/", fields)
    assert (done.status, words in done.text) == (status, True)


@not_built
async def test_page_in_place_of_the_console_reads_a_bounded_part_of_a_search(hall: Toolhall) -> None:
    """Every word is looked for in every tool, so thousands of words would hold up everybody's calls."""
    page = await Browser(hall).get(f"/console/plain?query={'greet+' * 1000}nothing", accept=CHROMIUM)
    assert (page.status, "test_console.greet" in page.text) == (200, True)
    assert (len(page.body) < 20_000, "nothing" in page.body) == (True, False)
    page = await Browser(hall).get("/console/plain?query=greet+nothing", accept=CHROMIUM)
    assert (page.status, "test_console.greet" in page.text) == (200, False)


@not_built
async def test_page_in_place_of_the_console_shows_a_stranger_nothing_but_the_sign_in(package: bool) -> None:
    with Toolhall(greet, config=Config(profile="server")) as hall:
        page = await Browser(hall).get("/", accept=CHROMIUM)
    assert page.status == 200
    assert "API key" in page.text
    assert "greet" not in page.text
