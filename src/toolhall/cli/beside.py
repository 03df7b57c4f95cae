"""What the example toolkit uses is started beside it; a target of one's own brings what it needs."""

import contextlib
import importlib
from collections.abc import Generator, Sequence

from toolhall.config import Config

EXAMPLES = "toolhall.examples"


@contextlib.contextmanager
def started_beside(targets: Sequence[str], config: Config) -> Generator[Config, None, None]:
    """The settings of a hall with these targets, and for the examples their stand-ins, for as long as this lasts."""
    if targets and EXAMPLES not in targets:
        yield config
        return
    # By its name, as every target: no command depends on the examples.
    with importlib.import_module(f"{EXAMPLES}.standins.beside").beside(config) as completed:
        yield completed
