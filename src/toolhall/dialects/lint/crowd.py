"""Rules about many tools together: two with one id or one name, and descriptions that speak of other tools."""

import re
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

import msgspec

from toolhall.dialects.findings import Finding
from toolhall.dialects.lint.descriptions import parameters
from toolhall.dialects.lint.rule import Rule, Subject
from toolhall.model.names import ToolId

Where = TypeVar("Where")

# A plain word is no mention: "search" may be what a tool is called, or what it does.
_IDENTIFIER = re.compile(
    r"\b[A-Za-z][A-Za-z0-9]{0,63}(?:[_.-][A-Za-z0-9]{1,63}){1,8}\b|\b[a-z]{1,32}(?:[A-Z][a-z0-9]{1,32}){1,8}\b"
)
_MOST_WORDS = 100
_MOST_TEXT = 20_000

ID_TWICE = Rule(
    id="tool/id-twice",
    says="Two tools have the same id; letter case does not tell them apart.",
    fix="remove one of the two, or raise its version",
    severity="error",
)
TOOLKIT_TWICE = Rule(
    id="toolkit/twice",
    says="Two documents are the same version of the same toolkit; letter case does not tell them apart.",
    fix="put all tools into one of the two, or raise its version",
    severity="error",
)
NAME_TAKEN = Rule(
    id="tool/name-taken",
    says="Two tools would be published under the same name; letter case does not tell them apart.",
    fix="rename one of the two",
    severity="error",
)
OTHER_TOOL = Rule(
    id="poison/other-tool",
    says="A description speaks of another tool.",
    fix="let each description speak of its own tool; one that steers the use of others may be an attack on them",
)
RULES = (ID_TWICE, TOOLKIT_TWICE, NAME_TAKEN, OTHER_TOOL)


class _Known(msgspec.Struct, frozen=True, gc=False):
    id: ToolId
    place: str


class Crowd(Generic[Where]):
    """Remembers of every tool its names, and the words in its descriptions that may be names of others."""

    def __init__(self) -> None:
        self._ids: dict[str, _Known] = {}
        self._toolkits: dict[tuple[str, str], str] = {}
        self._names: dict[str, _Known] = {}
        self._words: list[tuple[Where, str, tuple[str, ...]]] = []

    def add_toolkit(self, known: ToolId, place: str) -> Iterator[Finding]:
        """One more document that is a toolkit."""
        key = (known.toolkit.casefold(), known.version.casefold())
        if key in self._toolkits:
            detail = f"{known.toolkit} {known.version} is also in {self._toolkits[key]}"
            yield TOOLKIT_TWICE.finding("", detail)
        self._toolkits.setdefault(key, place)

    def add(self, subject: Subject, place: str, where: Where, path: str) -> Iterator[Finding]:
        """One more tool, at a place that can be named, with the pointer to it; what it has in common with others."""
        tool, known = subject.tool, _Known(subject.tool.id, place)
        words = _words_of(subject)
        if words:
            self._words.append((where, f"{path}/description", words))
        twin = self._ids.setdefault(str(tool.id).casefold(), known)
        if twin is not known:
            yield ID_TWICE.finding(path, f"{tool.id} is also in {twin.place}")
            return
        twin = self._names.setdefault(tool.name.casefold(), known)
        if twin is not known and not _is_other_version(twin.id, tool.id):
            yield NAME_TAKEN.finding(path, f"{tool.id} and {twin.id} in {twin.place} are both {tool.name}")

    def mentions(self, beside: Collection[str] = ()) -> Iterator[tuple[Where, Finding]]:
        """Every description that names another tool: one of these, or one `beside` them (names in small letters)."""
        for where, path, words in self._words:
            found = [word for word in words if word.casefold() in self._names or word.casefold() in beside]
            if found:
                yield where, OTHER_TOOL.finding(path, ", ".join(found[:5]))


def _is_other_version(one: ToolId, other: ToolId) -> bool:
    return (one.toolkit, one.tool) == (other.toolkit, other.tool)


def _words_of(subject: Subject) -> tuple[str, ...]:
    tool = subject.tool
    own = {tool.name.casefold(), subject.stated.casefold(), tool.id.tool.casefold()}
    texts = [tool.description or ""]
    for name, _, schema in parameters(subject):
        own.add(name.casefold())
        if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
            texts.append(text)
    found = _IDENTIFIER.findall("\n".join(texts)[:_MOST_TEXT])
    return tuple(dict.fromkeys(word for word in found if word.casefold() not in own))[:_MOST_WORDS]
