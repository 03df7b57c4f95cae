"""Skills: declares that each folder with a SKILL.md, below a directory, is a skill that clients can read.

```python
hall = Toolhall(Skills("skills", prefix="acme"))     # skills/refunds/SKILL.md is skill://acme/refunds/SKILL.md
```

Each skill has an id (`acme.refunds`) like a tool, so that grants, levels and limits apply to it. Which skills there are
is looked up when they are added to a hall; their files are looked up again whenever a client asks for them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

from toolhall.authoring.declaration import BadDeclaration, option_problem
from toolhall.authoring.folder_files import MAX_SCANNED, FolderFiles
from toolhall.authoring.front_matter import BadFrontMatter, read_front_matter
from toolhall.model.json import JsonObject
from toolhall.model.names import name_problem
from toolhall.model.skill import SKILL_FILE
from toolhall.model.tool import Icon

MAX_SKILLS = 1_000
MAX_NAME_LENGTH = 64
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_GROUP = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")  # the first one is the authority of a URI
_RESERVED_METADATA = "io.modelcontextprotocol/"


class SkillsOptions(TypedDict, total=False):
    """All options of Skills; the comments give the defaults."""

    name: str  # of the toolkit in the skills' ids; the prefix, else skills
    version: str  # of each skill; 0.1.0
    level: int  # 0 to 10; 1
    tags: tuple[str, ...] | list[str]
    icons: tuple[Icon, ...] | list[Icon]
    meta: JsonObject
    fresh: float  # seconds that a client may keep a file that it read; 0
    shared: bool  # the same for everyone; False


class SkillFolder(NamedTuple):
    """The folder of one skill, and its path in URIs."""

    directory: Path
    path: str  # such as acme/refunds

    @property
    def name(self) -> str:
        """The name of the skill, which is that of its folder."""
        return self.path.rpartition("/")[2]

    @property
    def template(self) -> str:
        """The URI template of its files."""
        return f"skill://{self.path}/{{+path}}"


class Skills:
    """The skills below a directory, as resources `skill://...` and in MCP's skills/list."""

    def __init__(self, directory: str | Path, prefix: str | None = None, **options: Unpack[SkillsOptions]) -> None:
        self.directory = Path(directory).absolute()
        self.prefix = prefix
        self.options = options
        problem = option_problem(options, tuple(SkillsOptions.__annotations__), "Skills") or self._prefix_problem()
        if problem:
            raise self._error(problem)

    @property
    def name(self) -> str:
        """The name of the toolkit that the skills are in."""
        return self.options.get("name") or (self.prefix or "skills").replace("/", "_").replace(".", "_")

    def find(self) -> Iterator[SkillFolder]:
        """The folders of all skills, in the order of their paths; raises BadDeclaration. It blocks."""
        if not self.directory.is_dir():
            raise self._error(f"there is no directory {str(self.directory)!r}; make it, or give another")
        listing = FolderFiles(self.directory).list_files(MAX_SKILLS, SKILL_FILE)
        if listing.truncated:
            limits = f"{MAX_SKILLS} skills, or {MAX_SCANNED} files"
            raise self._error(f"there are more than {limits}, below it; add its folders one by one")
        if not listing.files:
            raise self._error(f"no folder below {str(self.directory)!r} has a {SKILL_FILE}; write one, with its name")
        found: dict[str, str] = {}
        for file in listing.files:
            folder = self._folder_at(file.path.rpartition("/")[0])
            other = found.setdefault(folder.name, folder.path)
            if other != folder.path:
                raise self._error(f"{other} and {folder.path} are skills of one name; rename one of the folders")
            yield folder

    def _folder_at(self, path: str) -> SkillFolder:
        if not path:
            raise self._error(f"its own directory has a {SKILL_FILE}; give the directory that the skill's folder is in")
        *groups, name = path.split("/")
        if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
            rule = "rename the folder: 1 to 64 of a-z, 0-9 and single hyphens between them"
            raise self._error(f"{path!r} is no name of a skill; {rule}")
        for group in groups:
            if not _GROUP.fullmatch(group):
                raise self._error(f"{path!r} cannot be in a URI; rename {group!r} with a-z, 0-9 and hyphens")
        return SkillFolder(self.directory / path, path if self.prefix is None else f"{self.prefix}/{path}")

    def _prefix_problem(self) -> str | None:
        if self.prefix is not None and not all(map(_GROUP.fullmatch, self.prefix.split("/"))):
            return f"the prefix {self.prefix!r} cannot be in a URI; use a-z, 0-9 and hyphens, such as 'acme'"
        return name_problem(self.name)

    def _error(self, problem: str) -> BadDeclaration:
        return BadDeclaration(f"Skills({str(self.directory)!r}): {problem}")


def read_skill_file(text: str, name: str) -> JsonObject:
    """The front matter of a SKILL.md; BadFrontMatter unless it has this name, and a description."""
    members = read_front_matter(text)
    stated = members.get("name")
    if stated != name:
        quoted = name if stated is None or isinstance(stated, str) else f'"{name}"'
        raise BadFrontMatter(f"its name is {str(stated)[:80]!r}; write 'name: {quoted}', as its folder says")
    description = members.get("description")
    if not isinstance(description, str) or not description.strip():
        raise BadFrontMatter("it has no description; write 'description: ...', by which a model chooses skills")
    metadata = members.get("metadata")
    reserved = [key for key in metadata if key.startswith(_RESERVED_METADATA)] if isinstance(metadata, dict) else []
    if reserved:
        raise BadFrontMatter(f"its metadata has {reserved[0][:80]!r}; that prefix is reserved, use one of your own")
    return members
