"""Contents of the wheel: a release has the console and the TypeScript SDK; a build without Node.js, everything else."""

import json
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import toolhall
from tests.packaging.building import BUILT_CONSOLE, CONSOLE, ROOT, SDK, TARBALL, build, clone_to

MAX_CONSOLE_BYTES = 250_000  # that the wheel may grow by
MAX_GZIP_BYTES = 200_000  # of all files of the console, as most clients get them


@pytest.mark.parametrize("node", [True, False])
def test_wheel_holds_every_file_of_the_package_and_what_node_built_if_it_did(tmp_path: Path, node: bool) -> None:
    clone = clone_to(tmp_path / "clone", sdk=node, console=node)
    with zipfile.ZipFile(build(clone, "wheel", tmp_path)) as held:
        shipped = {name for name in held.namelist() if name.startswith("toolhall/")}
        assert not node or held.read(TARBALL) == SDK.read_bytes()
    sources = {path.relative_to(clone / "src").as_posix() for path in (clone / "src").rglob("*") if path.is_file()}
    assert shipped == sources
    assert (TARBALL in shipped) == (f"{CONSOLE}/index.html.gz" in shipped) == node


@pytest.mark.parametrize("node", [True, False])
def test_sdist_holds_what_its_wheel_needs(tmp_path: Path, node: bool) -> None:
    clone = clone_to(tmp_path / "clone", sdk=node, console=node)
    with tarfile.open(build(clone, "sdist", tmp_path)) as held:
        shipped = {name.partition("/")[2] for name in held.getnames()}
    assert {"src/toolhall/__init__.py", "pyproject.toml", "LICENSE"} <= shipped
    assert (f"src/{TARBALL}" in shipped) == (f"src/{CONSOLE}/index.html.gz" in shipped) == node


def test_console_keeps_to_its_budget_of_bytes(tmp_path: Path) -> None:
    with_console = build(clone_to(tmp_path / "with", console=True), "wheel", tmp_path / "one")
    without = build(clone_to(tmp_path / "without"), "wheel", tmp_path / "two")
    assert 0 < with_console.stat().st_size - without.stat().st_size <= MAX_CONSOLE_BYTES
    sent = [each for each in BUILT_CONSOLE.rglob("*") if each.is_file() and each.suffix != ".br"]
    assert 0 < sum(each.stat().st_size for each in sent) <= MAX_GZIP_BYTES


def test_sdk_tarball_has_the_version_of_the_project() -> None:
    with tarfile.open(SDK) as held:
        manifest = held.extractfile("package/package.json")
        assert manifest is not None
        package = json.load(manifest)
        names = held.getnames()
    assert (package["name"], package["version"]) == ("@toolhall/sdk", toolhall.__version__)
    assert {"package/dist/index.js", "package/dist/index.d.ts", "package/README.md"} <= set(names)
    assert list(package["dependencies"]) == ["ws"], "what an author installs with it"


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/install.md"])
def test_install_pages_name_every_extra(page: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = set(re.findall(r"`toolhall\[(\w+)\]`", (ROOT / page).read_text()))
    assert named == set(project["optional-dependencies"])
