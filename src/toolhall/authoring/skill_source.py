"""SkillSource: one skill as the hall lists and reads it: its front matter, and the digest of each of its files.

A digest must agree with what is read. So it is computed from the bytes of the file, by the same functions that read the
file for a client, and remembered only as long as inode, size and times of the file stay the same. A file that changed
less than SETTLED_SECONDS before it was digested might change again with the same times, so it is digested anew.
"""

import hashlib
import time
from collections.abc import Callable, Iterator

import msgspec

from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.file_source import FileScan, FileSource, notes_for, resource_of
from toolhall.authoring.folder_files import FileContents, FileTooLarge, FolderFile, FolderFiles
from toolhall.authoring.front_matter import BadFrontMatter
from toolhall.authoring.skills import SkillFolder, Skills, read_skill_file
from toolhall.model.content import Resource
from toolhall.model.json import JsonObject
from toolhall.model.names import DEFAULT_VERSION, ToolId, published_name
from toolhall.model.skill import SKILL_FILE, Skill, SkillFile
from toolhall.model.tool import ResourceInfo, Tool
from toolhall.model.uri_template import UriTemplate

MAX_FILES = 512
MAX_TOTAL_BYTES = 16 * 1024 * 1024
SETTLED_SECONDS = 2.0
_INPUT: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "The path of a file of the skill"}},
    "required": ["path"],
    "additionalProperties": False,
}


class BadSkill(ValueError):
    """A skill that cannot be served; the message names the fix."""


class _Digested(msgspec.Struct, frozen=True):
    """The digest of a file, and its front matter if it is the SKILL.md."""

    stamp: tuple[int, ...]
    file: SkillFile
    is_settled: bool
    front_matter: JsonObject | None = None


def skill_tool(skills: Skills, folder: SkillFolder) -> Tool:
    """The definition of a skill: the template of its files."""
    options = skills.options
    info = ResourceInfo(
        uri=folder.template,
        fresh=float(options.get("fresh", 0)),
        shared=options.get("shared", False),
        listed=False,  # clients find its files by its list of them
        exact=True,
    )
    return Tool(
        id=ToolId(skills.name, folder.name, options.get("version", DEFAULT_VERSION)),
        name=published_name(skills.name, folder.name),
        input=_INPUT,
        description=f"The files of the skill {folder.name}.",
        effect="reads",
        icons=tuple(options.get("icons", ())),
        tags=tuple(options.get("tags", ())),
        meta=options.get("meta"),
        level=options.get("level"),
        resource=info,
    )


class SkillSource(FileSource):
    """The files of one skill, in one hall."""

    is_skill = True

    def __init__(self, folder: SkillFolder, tool: Tool, clock: Callable[[], float] = time.time) -> None:
        super().__init__(tool)
        self._folder = folder
        self._files = FolderFiles(folder.directory)
        self._template = UriTemplate(folder.template)
        self._clock = clock
        self._known: dict[str, _Digested] = {}  # by path, as of the last scan

    def first_scan(self) -> FileScan:
        try:
            return self._scan()
        except (BadSkill, OSError) as error:
            raise BadDeclaration(f"{self._folder.directory}: {error}") from None

    def scan(self) -> FileScan:
        before = self._known
        try:
            scan = self._scan()
        except (BadSkill, OSError) as error:
            self.report(f"the skill is not listed: {error}")
            self._known = {}
            return FileScan((), tuple(each.file.uri for each in before.values()))
        self.report(None)
        return scan

    def read(self, **variables: str | list[str]) -> Resource | None:
        path = variables["path"]
        if not isinstance(path, str):
            return None
        try:
            file = self._files.read(path, self.limit)
        except FileTooLarge as error:
            raise self.too_large(error) from None
        uri = self._uri_of(path)
        return None if file is None or uri is None else resource_of(uri, file, _exact_content(file))

    def _scan(self) -> FileScan:
        listing = self._files.list_files(MAX_FILES + 1)
        if len(listing.files) > MAX_FILES or listing.truncated:
            raise BadSkill(f"it has more than {MAX_FILES} files; move some out of it")
        before, found = self._known, dict(self._digested(listing.files))
        total = sum(each.file.size for each in found.values())
        if total > MAX_TOTAL_BYTES:
            raise BadSkill(f"its files have more than {MAX_TOTAL_BYTES >> 20} MiB; move some out of it")
        main = found.get(SKILL_FILE)
        if main is None or main.front_matter is None:
            raise BadSkill(f"it has no {SKILL_FILE}; write one, with its name and description")
        self._known = found
        modified = next(file.modified for file in listing.files if file.path == SKILL_FILE)
        skill = Skill(main.file.uri, main.front_matter, tuple(each.file for each in found.values()))
        changed = [each.file.uri for path, each in before.items() if path not in found or found[path].file != each.file]
        return FileScan((self._tool_of(skill, main.file, modified),), tuple(changed))

    def _digested(self, files: tuple[FolderFile, ...]) -> Iterator[tuple[str, _Digested]]:
        for file in files:
            known = self._known.get(file.path)
            if known is None or known.stamp != file.stamp or not known.is_settled:
                known = self._digest(file)
            if known is not None:  # else it cannot be read: gone meanwhile, or of another user
                yield file.path, known

    def _digest(self, file: FolderFile) -> _Digested | None:
        uri = self._uri_of(file.path)
        if uri is None:
            raise BadSkill(f"no URI can name the file {file.path!r}; rename it")
        now = self._clock()
        try:
            contents = self._files.read(file.path, min(self.limit, MAX_TOTAL_BYTES))
        except FileTooLarge:
            raise BadSkill(
                f"{file.path!r} has more than {self.limit} bytes; make it smaller, or raise max_output_bytes"
            ) from None
        if contents is None:
            return None
        data = contents.content.encode() if isinstance(contents.content, str) else contents.content
        front_matter = self._front_matter(contents) if file.path == SKILL_FILE else None
        digested = SkillFile(uri, hashlib.sha256(data).hexdigest(), len(data), contents.mime_type)
        is_settled = now - max(contents.modified, file.stamp[-1] / 1e9) > SETTLED_SECONDS
        return _Digested(file.stamp, digested, is_settled, front_matter)

    def _front_matter(self, contents: FileContents) -> JsonObject:
        text = _exact_content(contents)
        try:
            if not isinstance(text, str):
                raise BadFrontMatter("it is no text in UTF-8; save it as such")
            return read_skill_file(text, self._folder.name)
        except BadFrontMatter as error:
            raise BadSkill(f"{SKILL_FILE}: {error}") from None

    def _tool_of(self, skill: Skill, file: SkillFile, modified: float) -> Tool:
        template = self.tool.resource or ResourceInfo(uri=skill.uri)
        info = msgspec.structs.replace(
            template,
            uri=skill.uri,
            mime_type=file.mime_type,
            size=file.size,
            notes=notes_for(modified, template.notes),
            listed=True,
            skill=skill,
        )
        tool = self.file_tool(self._folder.name, info)
        return msgspec.structs.replace(tool, description=skill.front_matter["description"])

    def _uri_of(self, path: str) -> str | None:
        uri = self._template.expand({"path": path})
        return uri if self._template.match(uri) == {"path": path} else None


def _exact_content(file: FileContents) -> str | bytes:
    """The content as text only if every client gets the same bytes from it."""
    content = file.content
    return content.encode() if isinstance(content, str) and "\0" in content else content
