"""One Chromium and one hall for all tests; every test gets a browser window that knows nothing of the others."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from tests.harness.http_client import request_url
from tests.harness.patience import patience
from tests.harness.server_process import serving
from tests.harness.stripping_proxy import PREFIX, stripping_proxy

TOOLS = Path(__file__).with_name("tools.py")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
]


class HallClient:
    """A REST client of the hall."""

    def __init__(self, port: int) -> None:
        self.url = f"http://localhost:{port}"
        self._address = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
        """One request, and the status and value of its reply."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        reply = request_url(f"{self._address}{path}", body, headers, method=method)
        return reply.status, reply.json

    def call(self, tool: str, key: str | None = None, **arguments: Any) -> tuple[int, Any]:
        """Call a tool over REST."""
        return self.ask("POST", f"/tools/tools/{tool}", arguments, key)

    def question(self, tool: str, key: str | None = None, **arguments: Any) -> str:
        """Call a tool that needs a person; the address of the page."""
        status, said = self.call(tool, key, **arguments)
        assert status == 403, said
        _, told = self.ask("GET", "/api/approvals", key=key)
        return str(told["approvals"][-1]["url"])


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallClient]:
    with serving(tmp_path_factory.mktemp("browser"), TOOLS) as served:
        yield HallClient(served.port)


@pytest.fixture
def hall_below(tmp_path: Path) -> Iterator[HallClient]:
    """A hall whose people come through the proxy; its `url` is the one that they use."""
    port: list[int] = []
    with stripping_proxy(lambda: port[0]) as outside:
        public = f"http://localhost:{outside}{PREFIX}"
        (tmp_path / "toolhall.toml").write_text(f'public_url = "{public}"\n')
        with serving(tmp_path, TOOLS) as served:
            port.append(served.port)
            client = HallClient(served.port)
            client.url = public
            yield client


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Gone before the next module's tests: while it is there, its event loop runs in this thread."""
    path = shutil.which("chromium")
    assert path, "there is no Chromium; install it with 'make chromium'"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def window(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens windows; what goes wrong in one, or is forbidden by its policy, fails the test."""
    contexts, wrong = [], []

    def open_window(**options: Any) -> Page:
        context = chromium.new_context(**options)
        context.set_default_timeout(1_000 * patience())
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        return page

    yield open_window
    for context in contexts:
        context.close()
    assert wrong == []


class Authenticator:
    """A passkey store in a window, which its owner unlocks at once until it is locked."""

    def __init__(self, page: Page) -> None:
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        made = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        self._id = made["authenticatorId"]

    def lock(self) -> None:
        """From now on nobody proves to be its owner."""
        self._session.send("WebAuthn.setUserVerified", {"authenticatorId": self._id, "isUserVerified": False})
