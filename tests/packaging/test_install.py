"""Each kind of package in an empty environment: a first project, a first call, and what is said of what is missing.

With PACKAGES, the packages in that folder (`make dist`); else they are built here.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

import pytest

from tests.harness.patience import patience
from tests.harness.seeds import runs_everything
from tests.packaging.building import SDK, build, clone_to, install, wheel_of

ORDERS = """
import pydantic
from toolhall import tool

class Order(pydantic.BaseModel):
    id: int

@tool(effect="reads")
def order(order: Order) -> Order:
    return order
"""


class Installed(NamedTuple):
    """An environment with toolhall in it, and an empty folder to work in."""

    programs: Path
    folder: Path
    node: bool  # whether it was built with what Node makes

    def toolhall(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run its command, with nothing from outside."""
        environment = {"HOME": str(self.folder), "PATH": f"{self.programs}:/usr/bin:/bin", "NO_COLOR": "1"}
        return subprocess.run(
            [str(self.programs / "toolhall"), *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=patience(),
            check=False,
        )


def package(kind: str, out: Path) -> Path:
    """The wheel that is installed for this kind of package."""
    made = os.environ.get("PACKAGES")
    if made is None:
        clone = clone_to(out / "clone", sdk=kind != "wheel without Node", console=kind != "wheel without Node")
        found = build(clone, "sdist" if kind == "sdist" else "wheel", out)
    else:
        folder = Path(made) / "without-node" if kind == "wheel without Node" else Path(made)
        (found,) = folder.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return wheel_of(found, out / "sources") if kind == "sdist" else found


# What is installed from an sdist is the wheel that is built from it: `make dist` and a full run try that as well.
KINDS = ["wheel", "wheel without Node", *(["sdist"] if runs_everything() or "PACKAGES" in os.environ else [])]


@pytest.fixture(scope="module", params=KINDS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    out = tmp_path_factory.mktemp("package")
    programs = install(package(request.param, out), out / "environment")
    (out / "work").mkdir()
    return Installed(programs, out / "work", request.param != "wheel without Node")


def test_installed_package_creates_a_project_and_calls_its_tool(installed: Installed) -> None:
    made = installed.toolhall("new", "my_tools", "--json")
    assert made.returncode == 0, made.stderr
    called = installed.toolhall("call", "MyTools_greet", "name=Ada", "--target", "my_tools/my_tools.py")
    assert called.returncode == 0, called.stderr
    assert "Hello, Ada!" in called.stdout
    listed = installed.toolhall("list", "--json")  # the example toolkit comes along
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)


def test_installed_package_creates_a_typescript_project_or_says_how_to_get_the_sdk(installed: Installed) -> None:
    made = installed.toolhall("new", "rooms", "--lang", "typescript")
    if installed.node:
        assert made.returncode == 0, made.stderr
        assert (installed.folder / "rooms/vendor/toolhall-sdk.tgz").read_bytes() == SDK.read_bytes()
    else:
        assert (made.returncode, made.stdout) == (1, "")
        assert "install a release of toolhall, or run 'make sdk' in a clone" in made.stderr
        assert not (installed.folder / "rooms").exists()


def test_installed_package_serves_the_console_or_a_page_in_its_place(installed: Installed) -> None:
    """C23: without Node, the page at `/` lists the tools and calls one, by a form."""
    environment = {"HOME": str(installed.folder), "PATH": str(installed.programs), "NO_COLOR": "1"}
    words = [str(installed.programs / "toolhall"), "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, cwd=installed.folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            served = json.loads(server.stdout.readline())
            person = build_opener(HTTPCookieProcessor(), ProxyHandler({}))
            person.addheaders = [("Accept", "text/html")]
            with person.open(f"{served['url']}/", timeout=patience()) as reply:
                url, page = reply.url, reply.read().decode()
            if installed.node:
                assert url == served["console"]
                assert '<script type="module"' in page
                return
            assert "<script" not in page
            with person.open(f"{served['url']}/?tool=Calculator.Add", timeout=patience()) as reply:
                form = reply.read().decode()
            (word,) = re.findall(
                r'name="word" value="([^"]+)">\s*<input type="hidden" name="action" value="call"', form
            )
            fields = {"word": word, "action": "call", "tool": "Calculator.Add", "arguments": '{"a": 20, "b": 22}'}
            with person.open(
                Request(f"{served['url']}/", urlencode(fields).encode(), {"Origin": served["url"]}), timeout=patience()
            ) as reply:
                assert "<code>42" in reply.read().decode()
        finally:
            server.terminate()


def test_installed_package_without_pydantic_names_the_extra(installed: Installed) -> None:
    (installed.folder / "orders.py").write_text(ORDERS)
    done = installed.toolhall("list", "orders.py")
    assert done.returncode == 1
    assert "orders.py, line 2: No module named 'pydantic'; pip install 'toolhall[pydantic]'" in done.stderr
