"""A hall below a path of another application (FastAPI, Starlette), or behind a proxy that strips a prefix."""

import asyncio
import re
import runpy
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from websockets.asyncio.client import connect

from tests.harness.patience import patience
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.auth.authenticator import AsgiApp
from toolhall.http.request_guard import strip_root_path
from toolhall.registration.access import NewKey

METADATA = "/.well-known/oauth-protected-resource"
EXAMPLES = Path(__file__).parents[3] / "docs_src"
happened: list[str] = []


@tool(effect="reads")
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


@tool(effect="writes", level=8)
async def burn(what: str) -> str:
    """Burn something."""
    return what


class Database(Toolkit):
    """Has to be connected."""

    def __init__(self, reachable: bool = True) -> None:
        self.reachable = reachable

    async def __aenter__(self) -> Self:
        if not self.reachable:
            raise ConnectionError("nobody listens")
        happened.append("connect")
        return self

    async def __aexit__(self, *_: object) -> None:
        happened.append("disconnect")

    @tool(effect="reads")
    async def ask(self) -> bool:
        """Ask it."""
        return happened == ["connect"]


async def home(_: Request) -> Response:
    return PlainTextResponse("home")


def in_starlette(hall: Toolhall, path: str = "/hall", **options: Any) -> Starlette:
    return Starlette(routes=[Route("/", home), Mount(METADATA + path, hall), Mount(path, hall)], **options)


def in_fastapi(hall: Toolhall, path: str = "/hall", **options: Any) -> FastAPI:
    app = FastAPI(**options)
    app.add_api_route("/", home)
    app.mount(METADATA + path, hall)
    app.mount(path, hall)
    return app


Mounted = Callable[..., AsgiApp]
FRAMEWORKS = pytest.mark.parametrize("mounted", [in_fastapi, in_starlette])


@pytest.fixture(autouse=True)
def _forget() -> None:
    happened.clear()


def example(name: str) -> dict[str, Any]:
    """A file of the how-to, with a hall of its own."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


@asynccontextmanager
async def serving(app: AsgiApp, **options: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    """A real server on loopback, and a client of it that keeps cookies by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, **options))
        task = asyncio.create_task(server.serve([listening]))
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        try:
            url = f"http://localhost:{listening.getsockname()[1]}"
            async with httpx2.AsyncClient(base_url=url, timeout=patience()) as client:
                yield client
        finally:
            server.should_exit = True
            await task


@FRAMEWORKS
async def test_mounted_hall_serves_every_dialect(mounted: Mounted) -> None:
    hall = Toolhall(greet)
    async with serving(mounted(hall, lifespan=hall.lifespan)) as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/hall/health")).json()["status"] == "healthy"
        said = await client.post("/hall/tools/test_mounting/greet", json={"name": "you"})
        assert (said.status_code, said.json()) == (200, "Hello, you")
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        about = {"Mcp-Protocol-Version": "2025-06-18", "Accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        began = await client.post("/hall/mcp", json={**message, "method": "initialize", "params": hello}, headers=about)
        about["Mcp-Session-Id"] = began.headers["mcp-session-id"]
        listed = await client.post("/hall/mcp", json=message, headers=about)
        assert '"greet"' in listed.text
        assert (await client.get("/hall/oxp/tools")).status_code == 200
        assert (await client.get("/hall/openapi.json")).json()["servers"] == [{"url": "/hall"}]
        async with connect(f"ws://{client.base_url.netloc.decode()}/hall/hub") as line:
            await line.send(
                '{"type":"tool_request","id":"1","tool":"test_mounting","method":"greet","params":{"name":"x"}}'
            )
            assert "Hello, x" in str(await line.recv())
        lost = await client.get("/hall/nothing")
        assert (lost.status_code, "/hall/mcp" in lost.text) == (404, True)
        assert (await client.get("/mcp")).status_code == 404
    hall.close()


@FRAMEWORKS
async def test_mounted_hall_with_lifespan_opens_and_closes(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    hall = Toolhall(Database)
    app = mounted(hall, lifespan=hall.lifespan)
    for _ in range(2):  # as test clients do
        happened.clear()
        async with serving(app) as client:
            assert happened == ["connect"]
            assert (await client.post("/hall/tools/Database/ask")).json() is True
        assert happened == ["connect", "disconnect"]
    hall.close()
    assert "a request opened the hall" not in caplog.text


@FRAMEWORKS
def test_mounted_hall_without_lifespan_opens_on_request(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    hall = Toolhall(Database)

    async def served() -> None:
        async with serving(mounted(hall)) as client:
            assert happened == []
            answers = await asyncio.gather(*(client.post("/hall/tools/Database/ask") for _ in range(3)))
            assert [each.json() for each in answers] == [True, True, True]

    asyncio.run(served())
    hall.close()
    assert happened == ["connect", "disconnect"]
    assert caplog.text.count("pass lifespan=hall.lifespan") == 1


async def test_mounted_hall_opens_data_folder_on_request(tmp_path: Path) -> None:
    with Toolhall(greet, config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        _, key = await hall.access.keys.create(NewKey("ada"), "ada")
        await hall.settle()
    with Toolhall(greet, config=Config(data=str(tmp_path), profile="server")) as hall:
        async with serving(in_starlette(hall)) as client:
            credential = {"Authorization": f"Bearer {key}"}
            assert (await client.get("/hall/tools", headers=credential)).status_code == 200
            await hall.settle()


@FRAMEWORKS
async def test_mounted_hall_that_cannot_open_is_503(
    mounted: Mounted, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolhall.http.app.RETRY_SECONDS", 0.0)
    kit = Database(reachable=False)
    hall = Toolhall(kit)
    async with serving(mounted(hall)) as client:
        refused = await client.post("/hall/mcp", json={})
        assert (refused.status_code, "its log says why" in refused.text) == (503, True)
        assert "nobody listens" not in refused.text
        assert "toolkit 'Database' could not be entered: ConnectionError: nobody listens" in caplog.text
        assert (await client.get("/")).status_code == 200
        kit.reachable = True
        assert (await client.post("/hall/tools/Database/ask")).json() is True
        await hall.settle()
    hall.close()


@FRAMEWORKS
async def test_lifespan_of_hall_that_cannot_open_fails(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    hall = Toolhall(Database(reachable=False))
    app = mounted(hall, lifespan=hall.lifespan)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(SystemExit):
        await server.serve([listening])
    hall.close()
    assert not server.started
    assert "toolkit 'Database' could not be entered" in caplog.text


@FRAMEWORKS
async def test_mounted_hall_challenge_names_metadata_url(mounted: Mounted) -> None:
    hall = Toolhall(greet, config=Config(profile="server"))
    async with serving(mounted(hall, lifespan=hall.lifespan)) as client:
        refused = await client.post("/hall/mcp", json={})
        address = re.findall(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])[0]
        base = str(client.base_url).rstrip("/")
        assert (refused.status_code, address) == (401, f"{base}/hall{METADATA}/mcp")
        below = await client.get(address)
        at_the_root = await client.get(f"{METADATA}/hall/mcp")  # as RFC 9728 has it, by the second mount
        assert below.json() == at_the_root.json()
        assert below.json()["resource"] == f"{base}/hall/mcp"
        whole = await client.get(f"{METADATA}/hall/")
        assert whole.json()["resource"] == f"{base}/hall"
        assert (await client.get(f"{METADATA}/hall/health")).status_code == 404  # there is nothing else there
        assert (await client.get(f"{METADATA}/hall/.well-known/x")).status_code == 404
    hall.close()


def cookie_of(reply: httpx2.Response) -> tuple[str, dict[str, str]]:
    (cookie,) = SimpleCookie(reply.headers["set-cookie"]).values()
    return cookie.key, {name: value for name, value in cookie.items() if value}


def word_of(page: str, action: str) -> str:
    found = re.search(rf'name="word" value="([^"]+)">\s*<input type="hidden" name="action" value="{action}"', page)
    assert found, page
    return found[1]


async def sign_out(client: httpx2.AsyncClient, page: httpx2.Response, path: str, origin: str) -> httpx2.Response:
    fields = {"action": "deny", "word": word_of(page.text, "deny")}
    return await client.post(path, data=fields, headers={"Origin": origin})


@FRAMEWORKS
async def test_mounted_pages_have_prefix(mounted: Mounted) -> None:
    hall = Toolhall(burn)
    async with serving(mounted(hall, lifespan=hall.lifespan)) as client:
        refused = await client.post("/hall/tools/test_mounting/burn", json={"what": "x"})
        link = refused.json()["error"]["details"]["url"]
        base = str(client.base_url).rstrip("/")
        assert link.startswith(f"{base}/hall/approve/")
        page = await client.get(link)
        assert page.status_code == 200
        name, attributes = cookie_of(page)
        assert re.fullmatch("toolhall-[0-9a-f]{8}", name)
        assert attributes["path"] == "/hall"
        assets = re.findall(r'(?:href|src)="([^"]+page\.\w+)"', page.text)
        assert [(await client.get(urljoin(link, each))).status_code for each in assets] == [200, 200]
        assert [re.sub("/[0-9a-f]{16}/", "/DIGEST/", each) for each in assets] == [
            "/hall/console/-/DIGEST/page.css",
            "/hall/console/-/DIGEST/page.js",
        ]
        done = await sign_out(client, page, link, base)
        assert (done.status_code, done.headers["location"]) == (303, urlsplit(link).path)
        assert "denied" in (await client.get(done.headers["location"])).text.lower()
    hall.close()


async def test_cookies_of_two_halls_on_one_host_differ() -> None:
    first, second, root = Toolhall(burn), Toolhall(burn), Toolhall(burn)
    app = Starlette(routes=[Mount("/one", first), Mount("/one-more/deep", second), Mount("/", root)])
    async with serving(app) as client:
        names = set()
        for prefix in ("/one", "/one-more/deep", ""):
            refused = await client.post(f"{prefix}/tools/test_mounting/burn", json={"what": "x"})
            link = f"{prefix}/approve/{refused.json()['error']['details']['id']}"
            page = await client.get(link)
            names.add(cookie_of(page)[0])
            done = await sign_out(client, page, link, str(client.base_url).rstrip("/"))
            assert (done.status_code, done.headers["location"]) == (303, link)
        assert len(names) == 3
        for hall in (first, second, root):
            await hall.settle()
            hall.close()


@asynccontextmanager
async def behind_a_proxy(hall: Toolhall) -> AsyncGenerator[httpx2.AsyncClient]:
    """A proxy that strips `/hall`, and sends the well-known paths as they are."""
    async with serving(hall) as backend:

        async def forward(request: Request) -> Response:
            path = request.url.path
            headers = {name: value for name, value in request.headers.items() if name != "content-length"}
            said = await backend.request(
                request.method,
                path if path.startswith("/.well-known") else path.removeprefix("/hall"),
                content=await request.body(),
                headers=headers,
            )
            kept = {name: said.headers[name] for name in said.headers if name not in ("content-length", "date")}
            return Response(said.content, said.status_code, kept)

        proxy = Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])
        async with serving(proxy) as client:
            client.headers["Host"] = "tools.example.com"
            yield client


async def test_stripping_proxy_uses_public_url_path() -> None:
    hall = Toolhall(burn, config=Config(public_url="https://tools.example.com/hall/", allowed_hosts=("localhost",)))
    async with behind_a_proxy(hall) as client:
        refused = await client.post("/hall/tools/test_mounting/burn", json={"what": "x"})
        link = refused.json()["error"]["details"]["url"]
        assert link.startswith("https://tools.example.com/hall/approve/")
        path = urlsplit(link).path
        page = await client.get(path)
        name, attributes = cookie_of(page)
        assert re.fullmatch("__Secure-toolhall-[0-9a-f]{8}", name)
        assert (attributes["path"], "secure" in attributes) == ("/hall", True)
        asset = re.findall(r'href="([^"]+page\.css)"', page.text)[0]
        assert re.fullmatch("/hall/console/-/[0-9a-f]{16}/page.css", asset)
        assert (await client.get(asset)).status_code == 200
        cookie = page.headers["set-cookie"].partition(";")[0]  # the client has no https
        fields = {"action": "deny", "word": word_of(page.text, "deny")}
        about = {"Origin": "https://tools.example.com", "Cookie": cookie}
        done = await client.post(path, data=fields, headers=about)
        assert (done.status_code, done.headers["location"]) == (303, path)
        assert (await client.get("/hall/openapi.json")).json()["servers"] == [{"url": "/hall"}]
    hall.close()


async def test_stripping_proxy_serves_metadata() -> None:
    hall = Toolhall(greet, config=Config(profile="server", public_url="https://tools.example.com/hall"))
    async with behind_a_proxy(hall) as client:
        refused = await client.post("/hall/mcp", json={})
        address = re.findall(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])[0]
        assert address == f"https://tools.example.com/hall{METADATA}/mcp"
        for path in (urlsplit(address).path, f"{METADATA}/hall/mcp"):
            assert (await client.get(path)).json()["resource"] == "https://tools.example.com/hall/mcp", path
        whole = await client.get(f"{METADATA}/hall")
        assert whole.json()["resource"] == "https://tools.example.com/hall"
    hall.close()


async def test_server_root_path_is_respected() -> None:
    """uvicorn --root-path, for a proxy that strips; the server puts it before every path again."""
    hall = Toolhall(burn)
    async with serving(hall, root_path="/outer") as client:
        refused = await client.post("/tools/test_mounting/burn", json={"what": "x"})
        assert "/outer/approve/" in refused.json()["error"]["details"]["url"]
    hall.close()


@pytest.mark.filterwarnings("ignore:The `root_path` parameter is deprecated")
@pytest.mark.parametrize("sent", ["/hall", "/outer/hall"])
async def test_application_root_path_is_respected(sent: str) -> None:
    """FastAPI(root_path=...), for a proxy that strips it or does not."""
    hall = Toolhall(burn, config=Config(profile="server"))
    async with serving(in_fastapi(hall, root_path="/outer", lifespan=hall.lifespan)) as client:
        refused = await client.post(f"{sent}/mcp", json={})
        assert f"/outer/hall{METADATA}/mcp" in refused.headers["www-authenticate"]
        base = str(client.base_url).rstrip("/")
        for path in (f"{sent}{METADATA}/mcp", f"{sent.removesuffix('/hall')}{METADATA}/hall/mcp"):
            assert (await client.get(path)).json()["resource"] == f"{base}/outer/hall/mcp"
    hall.close()


async def test_starlette_test_client_reaches_hall() -> None:
    made = example("mounting")
    with TestClient(made["app"], base_url="http://localhost", client=("127.0.0.1", 50000)) as client:
        assert client.post("/hall/tools/mounting/greet", json={"name": "you"}).json() == "Hello, you"
    made["hall"].close()


async def test_public_url_without_mount_path_logs_warning(caplog: pytest.LogCaptureFixture) -> None:
    hall = Toolhall(greet, config=Config(public_url="http://localhost:9"))
    async with serving(in_starlette(hall, lifespan=hall.lifespan)) as client:
        assert [(await client.get("/hall/health")).status_code for _ in range(2)] == [200, 200]
    hall.close()
    assert caplog.text.count("the hall is mounted at /hall, and links for people begin with public_url") == 1


@pytest.mark.parametrize(
    ("path", "raw", "root", "own", "own_raw"),
    [
        ("/hall/mcp", b"/hall/mcp", "/hall", "/mcp", b"/mcp"),
        ("/hall", b"/hall", "/hall", "/", b""),
        ("/hall/", b"/hall/", "/hall/", "/", b"/"),
        ("/mcp", b"/mcp", "/hall", "/mcp", b"/mcp"),  # a server that leaves the prefix out
        ("/hallway/mcp", b"/hallway/mcp", "/hall", "/hallway/mcp", b"/hallway/mcp"),
        ("/a b/tools/x/y", b"/a%20b/tools/x%2Fy", "/a b", "/tools/x/y", b"/tools/x%2Fy"),
        ("/a b/tools/x/y", b"/%61%20b/tools/x%2Fy", "/a b", "/tools/x/y", b""),
    ],
)
def test_strip_root_path_returns_path_below_mount(path: str, raw: bytes, root: str, own: str, own_raw: bytes) -> None:
    found = strip_root_path({"path": path, "raw_path": raw, "root_path": root}, root)
    assert (found["path"], found["raw_path"], found["root_path"]) == (own, own_raw, root.rstrip("/"))


@pytest.mark.parametrize("prefix", ["", "/hall"])
async def test_routes_serve_other_applications(prefix: str) -> None:
    hall: Toolhall = example("mounting_beside")["hall"]
    app: AsgiApp = in_starlette(hall) if prefix else hall
    async with serving(app) as client:
        assert (await client.post(f"{prefix}/hooks/payments")).json() == {"seen": True}
        assert (await client.get(f"{prefix}/hooks/nothing")).json() == {"detail": "Not Found"}
        assert (await client.get(f"{prefix}/health")).status_code == 200
        assert (await client.get(f"{prefix}/hooksy")).status_code == 404
        await hall.settle()
    hall.close()


@pytest.mark.parametrize("path", ["/mcp", "/tools/mine", "/api", "/hub", "webhook", "/webhook/", "/", ""])
def test_routes_invalid_or_taken_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"^routes: "):
        Toolhall(greet, routes={path: FastAPI()})


async def test_how_to_examples_run() -> None:
    made = example("mounting")
    async with serving(made["app"]) as client:
        said = await client.post("/hall/tools/mounting/greet", json={"name": "you"})
        assert said.json() == "Hello, you"
    made["hall"].close()
    made = example("mounting_routes")
    async with serving(made["app"]) as client:
        assert (await client.get("/about")).text == "what we do"
        assert (await client.get("/hall/health/ready")).json() == {"status": "ready"}
    made["hall"].close()
