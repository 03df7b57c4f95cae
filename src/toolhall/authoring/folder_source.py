"""FolderSource: the definition of a Folder, and its files as the hall lists and reads them."""

import msgspec

from toolhall.authoring.declaration import BadDeclaration, ToolkitOptions, merged_requirements
from toolhall.authoring.file_source import FileScan, FileSource, notes_for, resource_of
from toolhall.authoring.folder import Folder
from toolhall.authoring.folder_files import MAX_LISTED, FileTooLarge, FolderFile
from toolhall.model.content import Resource
from toolhall.model.json import JsonObject
from toolhall.model.names import DEFAULT_VERSION, ToolId, published_name
from toolhall.model.tool import ResourceInfo, Tool


class FolderSource(FileSource):
    """The files of one Folder, in one hall."""

    def __init__(self, folder: Folder, tool: Tool) -> None:
        super().__init__(tool)
        self._folder = folder
        self._known: dict[str, tuple[FolderFile, Tool]] = {}  # by URI, as of the last scan

    def first_scan(self) -> FileScan:
        problem = self._folder.directory_problem()
        if problem:
            raise BadDeclaration(f"Folder({self._folder.template.text!r}): {problem}")
        return self.scan()

    def scan(self) -> FileScan:
        try:
            listing = self._folder.list_files()
        except (FileNotFoundError, NotADirectoryError):
            self.report(self._folder.directory_problem())
            return self._replace({})
        except OSError as error:
            self.report(f"its directory cannot be listed: {error.strerror}")
            return FileScan(self.listed)
        self.report(f"it has more than {MAX_LISTED} files; only these are listed" if listing.truncated else None)
        found: dict[str, tuple[FolderFile, Tool]] = {}
        for file in listing.files:
            uri = self._folder.uri_of(file.path)
            if uri is not None:
                before = self._known.get(uri)
                found[uri] = before if before is not None and before[0] == file else (file, self._tool_of(file, uri))
        return self._replace(found)

    def read(self, **variables: str | list[str]) -> Resource | None:
        path = self._folder.path_of(variables)
        try:
            file = self._folder.read(path, self.limit)
        except FileTooLarge as error:
            raise self.too_large(error) from None
        uri = self._folder.uri_of(path)
        return None if file is None or uri is None else resource_of(uri, file)

    def _replace(self, found: dict[str, tuple[FolderFile, Tool]]) -> FileScan:
        before, self._known = self._known, found
        changed = [uri for uri, known in before.items() if uri not in found or found[uri][0] != known[0]]
        return FileScan(self._listed(), tuple(changed))

    def _listed(self) -> tuple[Tool, ...]:
        is_listed = self._folder.options.get("listed", True)
        return tuple(tool for _, tool in self._known.values()) if is_listed else ()

    def _tool_of(self, file: FolderFile, uri: str) -> Tool:
        template = self.tool.resource or ResourceInfo(uri=uri)
        notes = notes_for(file.modified, template.notes)
        mime_type = template.mime_type or file.mime_type
        info = msgspec.structs.replace(template, uri=uri, mime_type=mime_type, size=file.size, notes=notes)
        return self.file_tool(file.path, info)


def folder_tool(folder: Folder, name: str, toolkit: str | None, options: ToolkitOptions) -> Tool:
    """The definition of a Folder by this name, in a toolkit with these options if it is an attribute of one."""
    stated, template = folder.options, folder.template
    info = ResourceInfo(
        uri=template.text,
        mime_type=stated.get("mime_type"),
        notes=stated.get("notes"),
        fresh=float(stated.get("fresh", 0)),
        shared=stated.get("shared", False),
    )
    return Tool(
        id=ToolId(toolkit or name, name, options.get("version", DEFAULT_VERSION)),
        name=published_name(toolkit or name, name),
        input=_input(folder),
        title=stated.get("title"),
        description=stated.get("description", f"The files below {template.text.partition('{')[0]}"),
        effect="reads",
        icons=tuple(stated.get("icons", ())),
        tags=(*options.get("tags", ()), *stated.get("tags", ())),
        meta=stated.get("meta"),
        level=stated.get("level", options.get("level")),
        requirements=merged_requirements(options),
        resource=info,
    )


def _input(folder: Folder) -> JsonObject:
    path: JsonObject = {"type": "string"}
    if folder.is_exploded:
        path = {"type": "array", "items": path}
    path["description"] = "The path of a file"
    name = folder.variable
    return {"type": "object", "properties": {name: path}, "required": [name], "additionalProperties": False}
