"""What `/health` and `/metrics` show of a hall besides its tools: `task_health`, `task_metrics`, `audit_metrics`."""

import time
from collections.abc import Iterator

from toolhall.execution.health_checks import DEGRADED, HEALTHY
from toolhall.http.health import TaskHealth
from toolhall.pipeline.tasks.engine import StoredTasks
from toolhall.pipeline.tasks.figures import TaskFigures
from toolhall.stores.audit.journal import AuditJournal, MemoryJournal
from toolhall.telemetry import Metric


async def task_health(figures: TaskFigures) -> TaskHealth | None:
    """Return the open tasks; None if there are none."""
    await figures.refresh()
    if not (figures.open or figures.failing):
        return None
    age = None if figures.oldest is None else round(max(0.0, time.time() - figures.oldest), 3)
    state = DEGRADED if figures.failing else HEALTHY
    return TaskHealth(state, figures.open.get("working", 0), figures.open.get("input_required", 0), age)


def task_metrics(tasks: StoredTasks) -> Iterator[Metric]:
    """Yield the metrics of long calls."""
    yield Metric("toolhall_tasks_running", "gauge", "Long calls at work here.", lambda: tasks.running)
    for state, read in tasks.figures.readings():
        yield Metric("toolhall_tasks_open", "gauge", "Long calls that have not ended.", read, {"state": state})


def audit_metrics(journal: AuditJournal | MemoryJournal) -> Iterator[Metric]:
    """Yield whether the audit can be written, and whether it is complete."""
    about = "1 while records cannot be written."
    yield Metric("toolhall_audit_failing", "gauge", about, lambda: float(journal.failing))
    about = "1 while the audit is not what the store knows of it."
    yield Metric("toolhall_audit_behind", "gauge", about, lambda: float(bool(journal.behind)))
