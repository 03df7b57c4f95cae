"""The benchmark's tool in Node, with the SDK that Toolhall ships, as npm would install it."""

import shutil
import tarfile
from pathlib import Path

from bench.launch import ROOT, SERVERS

SDK = ROOT / "src" / "toolhall" / "sdk" / "toolhall-sdk.tgz"
WS = ROOT / "sdk" / "typescript" / "node_modules" / "ws"  # all that the SDK depends on


def install(folder: Path) -> list[str]:
    """Put it there; the command that starts it, but for the hall's address."""
    scope = folder / "node_modules" / "@toolhall"
    scope.mkdir(parents=True)
    with tarfile.open(SDK) as packed:
        packed.extractall(scope, filter="data")
    (scope / "package").rename(scope / "sdk")
    (scope.parent / "ws").symlink_to(WS)
    return ["node", str(shutil.copy(SERVERS / "tools.mjs", folder))]
