"""Contents of the wheel: a release has the TypeScript SDK; a build without Node.js has everything else."""

import json
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import toolhall
from tests.packaging.building import ROOT, SDK, TARBALL, build, clone_to


@pytest.mark.parametrize("sdk", [True, False])
def test_wheel_holds_every_file_of_the_package_and_the_sdk_if_it_was_built(tmp_path: Path, sdk: bool) -> None:
    clone = clone_to(tmp_path / "clone", sdk=sdk)
    with zipfile.ZipFile(build(clone, "wheel", tmp_path)) as held:
        shipped = {name for name in held.namelist() if name.startswith("toolhall/")}
        assert not sdk or held.read(TARBALL) == SDK.read_bytes()
    sources = {path.relative_to(clone / "src").as_posix() for path in (clone / "src").rglob("*") if path.is_file()}
    assert shipped == sources
    assert (TARBALL in shipped) == sdk


@pytest.mark.parametrize("sdk", [True, False])
def test_sdist_holds_what_its_wheel_needs(tmp_path: Path, sdk: bool) -> None:
    clone = clone_to(tmp_path / "clone", sdk=sdk)
    with tarfile.open(build(clone, "sdist", tmp_path)) as held:
        shipped = {name.partition("/")[2] for name in held.getnames()}
    assert {"src/toolhall/__init__.py", "pyproject.toml", "LICENSE"} <= shipped
    assert (f"src/{TARBALL}" in shipped) == sdk


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
