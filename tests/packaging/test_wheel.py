"""What is shipped: the wheel and the sdist hold the TypeScript SDK, or are not built."""

import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
TARBALL = "toolhall/sdk/toolhall-sdk.tgz"
SDK = ROOT / "src" / TARBALL


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a package is built from, without anything that `make` makes."""
    folder = tmp_path / "clone"
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "sdk"))
    for file in ("pyproject.toml", "hatch_build.py", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / file, folder)
    return folder


def with_sdk(clone: Path) -> Path:
    (clone / "src/toolhall/sdk").mkdir()
    shutil.copy(SDK, clone / "src" / TARBALL)
    return clone


def build(clone: Path, target: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", "out"]
    return subprocess.run(words, cwd=clone, capture_output=True, text=True, timeout=60, check=False)


def test_the_wheel_ships_the_sdk_and_every_file_of_the_templates(clone: Path) -> None:
    done = build(with_sdk(clone), "wheel")
    assert done.returncode == 0, done.stderr
    (wheel,) = (clone / "out").iterdir()
    with zipfile.ZipFile(wheel) as held:
        assert held.read(TARBALL) == SDK.read_bytes()
        shipped = set(held.namelist())
    templates = (clone / "src/toolhall/cli/templates").rglob("*.in")
    assert {file.relative_to(clone / "src").as_posix() for file in templates} <= shipped


def test_the_sdist_holds_what_its_wheel_needs(clone: Path) -> None:
    done = build(with_sdk(clone), "sdist")
    assert done.returncode == 0, done.stderr
    (sdist,) = (clone / "out").iterdir()
    with tarfile.open(sdist) as held:
        shipped = {name.partition("/")[2] for name in held.getnames()}
    assert {f"src/{TARBALL}", "hatch_build.py", "pyproject.toml"} <= shipped


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_without_the_sdk_nothing_is_built_and_the_way_out_is_named(clone: Path, target: str) -> None:
    done = build(clone, target)
    assert done.returncode != 0
    assert "make sdk" in done.stderr.strip().splitlines()[-1]
    assert not list(clone.glob("out/*"))


def test_an_editable_install_does_without(clone: Path) -> None:
    hook = WheelBuilder(str(clone)).get_build_hooks(str(clone / "out"))["custom"]
    hook.initialize("editable", {})
    with pytest.raises(FileNotFoundError, match="make sdk"):
        hook.initialize("standard", {})


def test_the_tarball_is_the_sdk_of_this_version() -> None:
    with tarfile.open(SDK) as held:
        manifest = held.extractfile("package/package.json")
        assert manifest is not None
        package = json.load(manifest)
        names = held.getnames()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (package["name"], package["version"]) == ("@toolhall/sdk", project["version"])
    assert {"package/dist/index.js", "package/dist/index.d.ts", "package/README.md"} <= set(names)
    assert list(package["dependencies"]) == ["ws"], "what an author installs with it"
