"""The connection code of the real server, driven in this process without a socket."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from bench import messages
from bench.loop import BATCH, LoopTarget, RecordingLoop, serving_in_loop
from bench.servers import tools
from toolhall import Config, Toolhall
from toolhall.stores.audit.filters import parse_query


@pytest.fixture(autouse=True)
def garbage_collector() -> Iterator[None]:
    """Undo what a server changes for its process."""
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.mark.parametrize("dialect", messages.dialect_calls())
def test_batch_answers_and_records_every_call(tmp_path: Path, dialect: str) -> None:
    async def run() -> None:
        hall = Toolhall(tools, config=Config(data=str(tmp_path)))
        async with serving_in_loop(hall) as served:
            target = LoopTarget(served.factory, served.settle, messages.dialect_calls()[dialect])
            batches = [await target.batch() for _ in range(2)]
            records = await hall.journal.search(parse_query({"tool": "tools.add"}), 10 * BATCH)
            target.close()
        assert len(records.records) == 2 * BATCH
        assert all(0 < batch.thread < batch.process for batch in batches)

    uvloop.run(run(), loop_factory=RecordingLoop)
