"""Rules about names, hints and levels: what a tool says of itself besides its description."""

import re
from collections.abc import Iterator

from toolhall.dialects.lint.rule import Spot, Subject, ToolRule
from toolhall.model.names import NAME_LIMIT

_FOR_MODELS = re.compile(r"[A-Za-z0-9_-]+")
_CHANGES = re.compile(
    r"(?:^|[_.-])(?:add|create|delete|destroy|drop|edit|erase|insert|kill|move|patch|pay|post|publish|purge|remove|rename|"
    r"reset|send|set|truncate|update|upload|write)(?=$|[_.-])"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _refused_by_models(subject: Subject) -> Iterator[Spot]:
    if len(subject.stated) > NAME_LIMIT or not _FOR_MODELS.fullmatch(subject.stated):
        yield Spot("/name")


def _hints_contradict(subject: Subject) -> Iterator[Spot]:
    hints = subject.tool.annotations
    if hints is not None and hints.read_only and hints.destructive:
        yield Spot("/annotations")


def _reads_only_by_hint(subject: Subject) -> Iterator[Spot]:
    hints = subject.tool.annotations
    if hints is None or not hints.read_only:
        return
    found = _CHANGES.search(_CAMEL.sub("_", subject.stated[:NAME_LIMIT]).lower())
    if found:
        yield Spot("/annotations/readOnlyHint", f"the name says {found[0].strip('_.-')!r}")


def _level_missing(subject: Subject) -> Iterator[Spot]:
    if subject.dialect == "machine" and subject.tool.level is None:
        yield Spot("/level")


RULES = (
    ToolRule(
        id="name/refused-by-models",
        says=f"A tool's name has more than {NAME_LIMIT} characters, or others than letters, digits, _ and -.",
        fix=f"use at most {NAME_LIMIT} letters, digits, _ and -; model APIs refuse others, and get a changed name",
        check=_refused_by_models,
    ),
    ToolRule(
        id="tool/hints-contradict",
        says="A tool is said to be read-only and destructive.",
        fix="keep one of readOnlyHint and destructiveHint",
        check=_hints_contradict,
    ),
    ToolRule(
        id="tool/read-only-name",
        says="A tool is said to be read-only, and its name says that it changes something.",
        fix="set readOnlyHint to false, or rename the tool",
        check=_reads_only_by_hint,
    ),
    ToolRule(
        id="tool/level-missing",
        says="A Machine Context tool states no security level.",
        fix="state a securityLevel from 0 to 10; without one, 4 is assumed",
        check=_level_missing,
    ),
)
