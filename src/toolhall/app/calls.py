"""The hall itself: every stage of the pipeline, made from the parts."""

import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from toolhall.app.folder import Folder
from toolhall.app.guard import Guard, rates_of
from toolhall.app.supplies import Supplies
from toolhall.app.toolservers import ToolServers
from toolhall.config import Config
from toolhall.hall import Hall
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Authorize
from toolhall.pipeline.check import Check
from toolhall.pipeline.find import Find
from toolhall.pipeline.limit import Limit
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.record import Recorder
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.validate import Validate
from toolhall.pipeline.verify import Verify
from toolhall.registry.registry import Registry
from toolhall.registry.shortlist import Shortlist
from toolhall.runners.checker import ProcessChecker
from toolhall.runners.staff import Staff
from toolhall.telemetry.figures import Telemetry
from toolhall.transports.health import Examine


class Parts(NamedTuple):
    """What a call meets on its way."""

    registry: Registry
    folder: Folder
    guard: Guard
    verify: Verify
    supplies: Supplies
    staff: Staff
    checker: ProcessChecker
    telemetry: Telemetry
    servers: ToolServers
    examine: Examine


def build_hall(config: Config, parts: Parts) -> Hall:
    """A hall over these parts."""
    policy, recordings = parts.guard.policy, parts.folder.recordings
    stages = Stages(
        find=Find(parts.registry, policy, time.time),
        authorize=Authorize(policy),
        limit=Limit(rates_of(config), time.monotonic),
        validate=Validate(parts.checker),
        verify=parts.verify,
        equip=parts.supplies.equip,
        run=Run(config.call_timeout, parts.staff.activity, explain=config.profile == "local"),
        check=Check(config.max_output_bytes, explain=config.profile == "local"),
        sanitize=Sanitize(),
        audit=Audit(parts.folder.journal, time.time, time.monotonic),
        record=Recorder(config.record, recordings, time.time) if recordings else None,
        telemetry=parts.telemetry,
    )
    shortlist = Shortlist(config.pinned, search=config.search)
    return Hall(parts.registry, policy, Pipeline(stages), new_id=call_ids(), timer=time.monotonic, shortlist=shortlist)


def call_ids() -> Callable[[], str]:
    """Ids that never repeat: a random start for this process, then a count."""
    start, count = secrets.token_hex(6), iter(range(1, 2**63))
    return lambda: f"{start}-{next(count)}"
