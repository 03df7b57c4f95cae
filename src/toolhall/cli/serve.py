"""`toolhall serve`, as the parser sees it."""

from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.serving.plan import ServeOptions
from toolhall.cli.serving.start import start

_DEFAULTS = ServeOptions()


def serve(*targets: str, options: Annotated[ServeOptions, Parameter(name="*")] = _DEFAULTS) -> int:
    """Serve tools over HTTP, or over standard input and output.

    Parameters
    ----------
    targets
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    return start(targets, options)
