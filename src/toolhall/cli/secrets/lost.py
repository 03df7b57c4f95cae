"""Gives up what is sealed with a key that is gone; until then the hall of that folder does not start."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from toolhall.app import Toolhall
from toolhall.cli.failure import CommandFailed
from toolhall.cli.progress import counted
from toolhall.cli.tools.local import closed_hall, hall_in, recorded
from toolhall.config import Config
from toolhall.stores.base import StoreFailed
from toolhall.stores.bundle import Stores
from toolhall.stores.choosing import choose_stores
from toolhall.stores.vault.keys import find_keks
from toolhall.stores.vault.lost import lost, without_lost


def forget_lost(folder: Path | None, agree: Callable[[str], None]) -> list[tuple[str, str | None]]:
    """Forget it, if `agree` does not raise: the id of each secret, and whose it was."""
    config = hall_in(folder, founding=False)
    with closed_hall(config) as hall, asyncio.Runner() as runner:
        try:
            # Nobody else changes anything while the person thinks it over.
            with contextlib.closing(choose_stores(Path(config.data or ""), share=False)) as stores:
                gone = runner.run(_lost(config, stores))
                agree(f"Forget {counted(len(gone), 'secret')} and every account that the lost key sealed?")
                runner.run(_forget(hall, stores))
        except StoreFailed as failed:
            raise CommandFailed(f"nothing was changed: {failed}") from None
    return gone


async def _lost(config: Config, stores: Stores) -> list[tuple[str, str | None]]:
    keks = find_keks(config.vault_key, Path(config.data or ""), profile=config.profile)
    stored = await stores.vault.all()
    if not lost(stored, keks):
        raise CommandFailed("nothing is lost: whatever is sealed here opens with the key that is here")
    kept = without_lost(stored, keks).rows
    return [(row.name, row.user) for row in stored.rows if row not in kept]


async def _forget(hall: Toolhall, stores: Stores) -> None:
    await recorded(hall, "remove lost secrets", lambda: hall.supplies.vault.forget_lost(stores.vault))
