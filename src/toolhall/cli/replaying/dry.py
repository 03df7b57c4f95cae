"""A hall that keeps nothing: its tools run, and neither a record nor a key of it is written anywhere."""

import contextlib
from collections.abc import Generator

import msgspec

from toolhall.app import Toolhall
from toolhall.cli.opening import open_hall
from toolhall.cli.settings import read_settings
from toolhall.config import Config

_NO_LIMIT = 1e9  # calls that were recorded in a week are run in a minute


@contextlib.contextmanager
def dry_hall(target: str | None) -> Generator[Toolhall, None, None]:
    """The tools of a target in memory only; those of an author's own Toolhall are taken out of it."""
    config = _dry(read_settings())
    loaded = open_hall([target] if target else [], config)
    with loaded:
        if loaded.config is config:
            yield loaded
            return
        with Toolhall(config=_dry(loaded.config)) as hall:
            hall.registry.add(loaded.registry.snapshot.entries)
            hall.lifespans = loaded.lifespans
            yield hall


def _dry(config: Config) -> Config:
    return msgspec.structs.replace(
        config,
        data=None,
        record=(),
        search=False,
        pinned=(),
        calls_per_second=_NO_LIMIT,
        call_burst=_NO_LIMIT,
    )
