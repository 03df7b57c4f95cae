"""Skill, a folder of instructions for a model: what its SKILL.md says of it, and the digest of each of its files.

A digest is over the bytes of a file, as they lie in the folder; a client compares it with what it reads.
"""

import msgspec

from toolhall.model.json import JsonObject

SKILL_FILE = "SKILL.md"


class SkillFile(msgspec.Struct, frozen=True):
    """One file of a skill; the digest and the size are those of its bytes."""

    uri: str
    sha256: str  # 64 lower-case hexadecimal digits
    size: int
    mime_type: str | None = None


class Skill(msgspec.Struct, frozen=True):
    """A skill: the URI of its SKILL.md, the front matter of that file, and all files."""

    uri: str
    front_matter: JsonObject
    files: tuple[SkillFile, ...]

    @property
    def root(self) -> str:
        """The URI of its folder, without a slash at the end."""
        return self.uri.removesuffix(f"/{SKILL_FILE}")
