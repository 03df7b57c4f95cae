"""FileSource: the files behind a resource template that is declared by a Folder or by Skills.

The definition of a FileSource is one template; each file that it lists is a resource of that template, with its id,
level and tags. Reading and scanning block, so they are done in a thread. A scan does not change the list that is
served: whoever keeps the lists current (pipeline/file_lists.py) puts the result of a scan in place, in the event loop.
"""

import logging
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from toolhall.authoring.folder_files import FileContents, FileTooLarge
from toolhall.model.content import Notes, Resource
from toolhall.model.errors import BadOutput
from toolhall.model.tool import ResourceInfo, Tool

DEFAULT_LIMIT = 1024 * 1024
_log = logging.getLogger("toolhall.files")


class FileScan(msgspec.Struct, frozen=True):
    """What a scan has found: the resources to list, and the URIs whose files changed or went since the one before."""

    listed: tuple[Tool, ...]
    changed: tuple[str, ...] = ()


class FileSource(ABC):
    """What serves files as resources; `limit` is the size of the largest file that is read."""

    is_skill: ClassVar[bool] = False

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.limit = DEFAULT_LIMIT
        self.listed: tuple[Tool, ...] = ()
        self._problem: str | None = None  # that was logged

    def load(self, limit: int) -> None:
        """Make the first scan; raises BadDeclaration, with the fix, if this cannot be served."""
        self.limit = limit
        self.listed = self.first_scan().listed

    @abstractmethod
    def first_scan(self) -> FileScan:
        """Scan when the hall is built; raises BadDeclaration."""

    @abstractmethod
    def scan(self) -> FileScan:
        """Look at the files again; never raises because of what lies in the folder."""

    @abstractmethod
    def read(self, **variables: str | list[str]) -> Resource | None:
        """What is read of the file that the variables of a URI name; None if there is none."""

    def file_tool(self, name: str, info: ResourceInfo) -> Tool:
        """The definition of one listed file: that of the template, with its own name and ResourceInfo."""
        info = msgspec.structs.replace(info, template=self.tool.resource.uri if self.tool.resource else None)
        return msgspec.structs.replace(self.tool, name=name, title=None, description=None, resource=info)

    def too_large(self, error: FileTooLarge) -> BadOutput:
        """The error for a file above the limit, which is never cut."""
        _log.error("a file of %s is not read: %s; raise max_output_bytes to serve it", self.tool.id, error)
        return BadOutput(f"{error}; no more are passed on")

    def report(self, problem: str | None) -> None:
        """Log a problem once, until it is another one."""
        if problem is not None and problem != self._problem:
            _log.warning("%s: %s", self.tool.id, problem)
        self._problem = problem


def notes_for(modified: float, notes: Notes | None) -> Notes:
    """The author's notes, with the time when a file was last changed."""
    when = datetime.fromtimestamp(modified, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Notes(last_modified=when) if notes is None else msgspec.structs.replace(notes, last_modified=when)


def resource_of(uri: str, file: FileContents, content: str | bytes | None = None) -> Resource:
    """What was read of a file, as contents of this URI."""
    return Resource(uri=uri, content=file.content if content is None else content, mime_type=file.mime_type)
