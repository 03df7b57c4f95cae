"""A project in TypeScript with the SDK that is shipped, as npm would install it, but without a network."""

import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.harness.patience import patience

ROOT = Path(__file__).parent.parent
TARBALL = ROOT / "src/toolhall/sdk/toolhall-sdk.tgz"
TSCONFIG = ROOT / "src/toolhall/cli/templates/typescript/tsconfig.json.in"
BESIDE = ROOT / "sdk/typescript/node_modules"  # zod, ws and the compiler


def project(folder: Path, *sources: Path) -> Path:
    """Compile these sources there, as strictly as in a new project; they are in `dist` then."""
    (folder / "src").mkdir(parents=True)
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(TSCONFIG, folder / "tsconfig.json")
    for source in sources:
        shutil.copy(source, folder / "src")
    _install(folder / "node_modules")
    words = ["node", str(BESIDE / "typescript/bin/tsc")]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stdout
    return folder / "dist"


def _install(modules: Path) -> None:
    scope = modules / "@toolhall"
    scope.mkdir(parents=True)
    with tarfile.open(TARBALL) as held:
        held.extractall(scope, filter="data")
    (scope / "package").rename(scope / "sdk")
    for package in BESIDE.iterdir():
        if not package.name.startswith("."):
            (modules / package.name).symlink_to(package)
