"""Builds `kit.ts` against the SDK as it is now, in a folder that looks like an author's own project."""

import shutil
import subprocess
from pathlib import Path

from tests.harness.server_process import ROOT

HERE = Path(__file__).parent
SDK = ROOT / "sdk" / "typescript"
MODULES = SDK / "node_modules"
BUILD_SECONDS = 50.0
OPTIONS = ("--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "--skipLibCheck")


def built_kit(folder: Path) -> Path:
    """The JavaScript of the kit; types that do not fit are an error, as they would be for an author."""
    assert MODULES.is_dir(), "the compiler is not installed; run 'make setup'"
    home = folder / "node_modules" / "@toolhall" / "sdk"
    home.mkdir(parents=True)
    for name in ("ws", "@types"):
        (folder / "node_modules" / name).symlink_to(MODULES / name)
    shutil.copy(SDK / "package.json", home)
    _compile(SDK, "-p", "tsconfig.build.json", "--outDir", str(home / "dist"))
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(HERE / "kit.ts", folder)
    _compile(folder, *OPTIONS, "kit.ts")
    return folder / "kit.js"


def _compile(folder: Path, *words: str) -> None:
    command = [str(MODULES / ".bin" / "tsc"), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
