"""Each kind of package in an empty environment: a first project, a first call, and what is said of what is missing.

With PACKAGES, the packages in that folder (`make dist`); else they are built here.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.patience import patience
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
    sdk: bool

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
        clone = clone_to(out / "clone", sdk=kind != "wheel without the SDK")
        found = build(clone, "sdist" if kind == "sdist" else "wheel", out)
    else:
        folder = Path(made) / "without-sdk" if kind == "wheel without the SDK" else Path(made)
        (found,) = folder.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return wheel_of(found, out / "sources") if kind == "sdist" else found


@pytest.fixture(scope="module", params=["wheel", "wheel without the SDK", "sdist"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    out = tmp_path_factory.mktemp("package")
    programs = install(package(request.param, out), out / "environment")
    (out / "work").mkdir()
    return Installed(programs, out / "work", request.param != "wheel without the SDK")


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
    if installed.sdk:
        assert made.returncode == 0, made.stderr
        assert (installed.folder / "rooms/vendor/toolhall-sdk.tgz").read_bytes() == SDK.read_bytes()
    else:
        assert (made.returncode, made.stdout) == (1, "")
        assert "install a release of toolhall, or run 'make sdk' in a clone" in made.stderr
        assert not (installed.folder / "rooms").exists()


def test_installed_package_without_pydantic_names_the_extra(installed: Installed) -> None:
    (installed.folder / "orders.py").write_text(ORDERS)
    done = installed.toolhall("list", "orders.py")
    assert done.returncode == 1
    assert "orders.py, line 2: No module named 'pydantic'; pip install 'toolhall[pydantic]'" in done.stderr
