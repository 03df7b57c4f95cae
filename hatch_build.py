"""Sees to it that no package goes out without the TypeScript SDK, which `toolhall new --lang typescript` copies."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARBALL = "src/toolhall/sdk/toolhall-sdk.tgz"


class ShipsTheSdk(BuildHookInterface[Any]):
    """An editable install may come first: it looks for the tarball when somebody asks for it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatch's own signature
        """Stop a wheel or an sdist that would lack it."""
        if version != "editable" and not (Path(self.root) / TARBALL).is_file():
            raise FileNotFoundError(f"{TARBALL} is missing: make it with 'make sdk', then build again")
