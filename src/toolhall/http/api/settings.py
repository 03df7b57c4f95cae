"""`/api/settings`: every setting with its origin, and facts about the process that answers; for observers."""

import asyncio
import os
import platform
import shutil
from collections.abc import Callable
from typing import NamedTuple

from toolhall.http.api.base import ManagementContext, iso_time, json_response, query_parameters, respond
from toolhall.http.health import uptime
from toolhall.http.request import HttpRequest, Methods
from toolhall.model.json import JsonObject
from toolhall.model.messages import WireResponse


class DeployedHall(NamedTuple):
    """A hall as it is served: its settings without secrets, its data folder, number of processes and version."""

    settings: list[JsonObject]
    data: str | None
    workers: int
    version: str


class SettingsApi:
    """`GET /api/settings`; what is secret is not in it."""

    def __init__(self, context: ManagementContext, hall: Callable[[], DeployedHall]) -> None:
        self._context = context
        self._hall = hall

    def endpoints(self) -> dict[str, Methods]:
        """Return the route of settings."""
        return {"/api/settings": {"GET": self.show}}

    async def show(self, request: HttpRequest) -> None:
        """`GET /api/settings`."""
        await respond(request, self._show(request))

    async def _show(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        hall = self._hall()
        return json_response(
            {
                "settings": hall.settings,
                "versions": {"toolhall": hall.version, "python": platform.python_version()},
                "data": hall.data,
                "startedAt": iso_time(self._context.clock() - uptime()),
                "process": os.getpid(),
                "workers": hall.workers,
                "disk": None if hall.data is None else await asyncio.to_thread(_disk_space, hall.data),
            }
        )


def _disk_space(folder: str) -> JsonObject | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:  # the folder was removed, or its disk is gone
        return None
    return {"freeBytes": usage.free, "totalBytes": usage.total}
