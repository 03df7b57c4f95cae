"""The lock files: exact, hashed, and silent about where packages come from."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = sorted((ROOT / "requirements").glob("*.txt"))
NODE = [ROOT / "tools/node", ROOT / "tests/conformance/node", ROOT / "sdk/typescript", ROOT / "console"]
PINNED = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?==(?P<version>\S+)( ; [^#]+?)?( --hash=sha256:[0-9a-f]{64})+")
HOST = re.compile(r"\w+://|(?<![\w.@/])//|--(extra-)?index|--find-links|registry *=")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def requirements(lock: Path) -> list[str]:
    """The requirements of a lock, one line each, without comments."""
    lines = (line for line in lock.read_text().splitlines() if not line.lstrip().startswith("#"))
    return re.sub(r" *\\\n *", " ", "\n".join(lines)).strip().splitlines()


def versions(lock: Path) -> dict[str, str]:
    matches = map(PINNED.fullmatch, requirements(lock))
    return {match["name"]: match["version"] for match in matches if match}


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@pytest.mark.parametrize(
    "path", [*PYTHON, *(folder / file for folder in NODE for file in ("package-lock.json", ".npmrc"))], ids=name
)
def test_names_no_host(path: Path) -> None:
    named = [line.strip() for line in path.read_text().splitlines() if HOST.search(line)]
    assert not named, f"{name(path)} names a host: renew it with `make lock`"


@pytest.mark.parametrize("lock", PYTHON, ids=name)
def test_every_requirement_is_pinned_with_hashes(lock: Path) -> None:
    loose = [line.split(" --hash")[0] for line in requirements(lock) if not PINNED.fullmatch(line)]
    assert not loose, f"{name(lock)} has requirements without version or hash: renew it with `make lock`"


@pytest.mark.parametrize("lock", PYTHON, ids=name)
def test_what_two_locks_share_has_one_version(lock: Path) -> None:
    runtime, own = versions(ROOT / "requirements/runtime.txt"), versions(lock)
    apart = {each: (own[each], runtime[each]) for each in own.keys() & runtime.keys() if own[each] != runtime[each]}
    assert not apart, f"{name(lock)} differs from the runtime lock: renew both with `make lock`"


def test_the_development_lock_holds_the_runtime_lock() -> None:
    missing = versions(ROOT / "requirements/runtime.txt").keys() - versions(ROOT / "requirements/dev.txt").keys()
    assert not missing, "requirements/dev.txt is behind requirements/runtime.txt: renew both with `make lock`"


@pytest.mark.parametrize("folder", NODE, ids=name)
def test_node_packages_are_exact_and_hashed(folder: Path) -> None:
    manifest, lock = read(folder / "package.json"), read(folder / "package-lock.json")
    packages = {path: package for path, package in lock["packages"].items() if path}
    for group in ("dependencies", "devDependencies"):
        assert lock["packages"][""].get(group) == manifest.get(group), "renew it with `make lock`"
    assert all(version[0].isdigit() for version in manifest["devDependencies"].values()), "name one version, no range"
    assert not [path for path, package in packages.items() if "resolved" in package], "renew it with `make lock`"
    assert not [path for path, package in packages.items() if "integrity" not in package], "renew it with `make lock`"


@pytest.mark.parametrize("folder", NODE, ids=name)
def test_npm_ci_finds_every_package_in_the_lock(folder: Path) -> None:
    """Also those of other platforms: npm refuses a lock that lacks one which an entry of it names."""
    packages = read(folder / "package-lock.json")["packages"]
    known = {path.rpartition("node_modules/")[2] for path in packages}
    named = {
        each
        for package in packages.values()
        for group in ("dependencies", "optionalDependencies")
        for each in package.get(group, {})
    }
    assert named - known == set(), "choose versions of which every platform's package is there, then `make lock`"
