"""Folder: declares that the files below a directory are resources, one URI for each file.

```python
class Shop(Toolkit):
    manuals = Folder("shop://manuals/{+path}", "manuals")
```

A relative directory is below the file that has the class; for a Folder outside of a class, below the working directory.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, Unpack

from toolhall.authoring.declaration import BadDeclaration, option_problem
from toolhall.authoring.folder_files import MAX_LISTED, FileContents, FolderFiles, FolderListing
from toolhall.model.content import Notes
from toolhall.model.json import JsonObject
from toolhall.model.tool import Icon
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate


class FolderOptions(TypedDict, total=False):
    """All options of a Folder; the comments give the defaults."""

    name: str  # the attribute's name
    title: str
    description: str
    mime_type: str  # of every file; else by the file's name, and by its content if the name does not tell
    level: int  # the toolkit's
    tags: tuple[str, ...] | list[str]
    icons: tuple[Icon, ...] | list[Icon]
    meta: JsonObject
    notes: Notes  # whom they are for, how important they are
    fresh: float  # seconds that a client may keep what it read; 0
    shared: bool  # the same for everyone; False
    listed: bool  # whether the files are in the list of resources; True


class Folder:
    """The files below a directory, as resources: never outside of it, no links, no hidden files."""

    def __init__(self, uri_template: str, directory: str | Path, **options: Unpack[FolderOptions]) -> None:
        self.options = options
        self.name: str | None = options.get("name")
        self._stated_directory = Path(directory)
        self._base = Path()
        try:
            self.template = UriTemplate(uri_template)
        except BadUriTemplate as error:
            raise BadDeclaration(f"Folder: {error}") from None
        problem = option_problem(options, tuple(FolderOptions.__annotations__), "a Folder") or self._template_problem()
        if problem:
            raise BadDeclaration(f"Folder({uri_template!r}): {problem}")
        (self.variable,) = self.template.variables

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name
        file = getattr(sys.modules.get(owner.__module__), "__file__", None)
        self._base = Path(file).parent if file else Path()

    @property
    def directory(self) -> Path:
        """The directory, absolute."""
        return (self._base / self._stated_directory).absolute()

    def directory_problem(self) -> str | None:
        """Why the directory cannot be served now, or None."""
        if self.directory.is_dir():
            return None
        return f"there is no directory {str(self.directory)!r}; make it, or give another to Folder"

    def path_of(self, variables: Mapping[str, str | list[str]]) -> str:
        """The relative path in the variables of a URI that the template matches."""
        value = variables[self.variable]
        return value if isinstance(value, str) else "/".join(value)

    def uri_of(self, path: str) -> str | None:
        """The URI of a file; None if no URI can name it, such as one with `%20` in its own name."""
        uri = self.template.expand({self.variable: path.split("/") if self.is_exploded else path})
        variables = self.template.match(uri)
        return uri if variables is not None and self.path_of(variables) == path else None

    def read(self, path: str, limit: int) -> FileContents | None:
        """The contents of a file; None if there is none to serve; FileTooLarge beyond `limit` bytes. It blocks."""
        return self._files.read(path, limit)

    def list_files(self, limit: int = MAX_LISTED) -> FolderListing:
        """The files, in the order of their paths. It blocks."""
        return self._files.list_files(limit)

    @property
    def _files(self) -> FolderFiles:
        return FolderFiles(self.directory, self.options.get("mime_type"))

    @property
    def is_exploded(self) -> bool:
        """Whether the variable is a list of the path's segments."""
        return f"{{/{self.variable}*}}" in self.template.text

    def _template_problem(self) -> str | None:
        names = self.template.variables
        if len(names) == 1 and self.template.segments is None and not self.template.query_variables:
            return None
        return "write one variable that spans segments for the file's path, such as 'shop://manuals/{+path}'"
