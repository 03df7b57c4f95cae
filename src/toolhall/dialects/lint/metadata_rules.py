"""Lint rules about descriptions, names, annotations, security levels and icons.

A model chooses a tool by its description, and fills in a parameter by the parameter's description.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator

from toolhall.dialects.lint.rule import LintedTool, ToolRule, Violation
from toolhall.model.json import Json, escape_pointer
from toolhall.model.names import MAX_NAME_LENGTH
from toolhall.model.tool import Icon

MIN_TOOL_DESCRIPTION, MAX_TOOL_DESCRIPTION = 10, 2_000
MIN_PARAMETER_DESCRIPTION, MAX_PARAMETER_DESCRIPTION = 3, 1_000
_WIDE_WEIGHT = 3  # a Chinese character carries about as much meaning as three letters
_MODEL_NAME = re.compile(r"[A-Za-z0-9_-]+")
_CHANGING_VERBS = re.compile(
    r"(?:^|[_.-])(?:add|create|delete|destroy|drop|edit|erase|insert|kill|move|patch|pay|post|publish|purge|remove|rename|"
    r"reset|send|set|truncate|update|upload|write)(?=$|[_.-])"
)
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# URL parsers skip blanks and control characters, so `data:image/s<tab>vg+xml` is an SVG; they are refused here.
_SAFE_SOURCE = re.compile(
    r"(?:https://|data:image/(?![a-z0-9.+-]*(?:svg|xml))[a-z0-9.+-]+[;,])[^\s\x00-\x20\x7f-\x9f]+", re.IGNORECASE
)
_SCRIPTABLE = re.compile(r"svg|xml", re.IGNORECASE)


def parameters_of(subject: LintedTool) -> Iterator[tuple[str, str, Json]]:
    """Every parameter: its name, pointer and schema."""
    properties = subject.tool.input.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        yield name, f"/inputSchema/properties/{escape_pointer(name)}", schema


def _described_parameters(subject: LintedTool) -> Iterator[tuple[str, str, str]]:
    """Every parameter with a description: its name, pointer and description."""
    for name, path, schema in parameters_of(subject):
        text = schema.get("description") if isinstance(schema, dict) else None
        if isinstance(text, str) and text.strip():
            yield name, f"{path}/description", text


def _description(subject: LintedTool) -> str:
    return (subject.tool.description or "").strip()


def _weighted_length(text: str) -> int:
    return sum(_WIDE_WEIGHT if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _letters_only(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def is_missing(subject: LintedTool) -> Iterator[Violation]:
    """A description that is missing."""
    if not _description(subject):
        yield Violation("/description")


def is_short(subject: LintedTool) -> Iterator[Violation]:
    """A description that is too short to say anything."""
    if 0 < _weighted_length(_description(subject)[:MIN_TOOL_DESCRIPTION]) < MIN_TOOL_DESCRIPTION:
        yield Violation("/description")


def is_long(subject: LintedTool) -> Iterator[Violation]:
    """A description that is too long."""
    if len(_description(subject)) > MAX_TOOL_DESCRIPTION:
        yield Violation("/description", f"it has {len(_description(subject)):,}")


def is_only_name(subject: LintedTool) -> Iterator[Violation]:
    """A description that only repeats the name."""
    names = {_letters_only(subject.written_name), _letters_only(subject.tool.id.tool)}
    if (
        _description(subject)
        and len(_description(subject)) <= MAX_TOOL_DESCRIPTION
        and _letters_only(_description(subject)) in names
    ):
        yield Violation("/description")


def _parameter_missing(subject: LintedTool) -> Iterator[Violation]:
    described = {path for _, path, _ in _described_parameters(subject)}
    for _, path, _ in parameters_of(subject):
        if f"{path}/description" not in described:
            yield Violation(path)


def _parameter_short(subject: LintedTool) -> Iterator[Violation]:
    for _, path, text in _described_parameters(subject):
        if _weighted_length(text.strip()[:MIN_PARAMETER_DESCRIPTION]) < MIN_PARAMETER_DESCRIPTION:
            yield Violation(path)


def _parameter_long(subject: LintedTool) -> Iterator[Violation]:
    for _, path, text in _described_parameters(subject):
        if len(text) > MAX_PARAMETER_DESCRIPTION:
            yield Violation(path, f"it has {len(text):,}")


def _parameter_is_name(subject: LintedTool) -> Iterator[Violation]:
    for name, path, text in _described_parameters(subject):
        if len(text) <= MAX_PARAMETER_DESCRIPTION and _letters_only(text) == _letters_only(name):
            yield Violation(path)


def _rule(name: str, check: Callable[[LintedTool], Iterator[Violation]], summary: str, fix: str) -> ToolRule:
    return ToolRule(id=name, summary=summary, fix=fix, check=check)


DESCRIPTION_RULES = (
    _rule(
        "tool/description-missing",
        is_missing,
        "A tool has no description.",
        "say in a sentence what the tool does and when to use it",
    ),
    _rule(
        "tool/description-short",
        is_short,
        f"A tool's description has fewer than {MIN_TOOL_DESCRIPTION} letters.",
        "say what the tool does and when to use it",
    ),
    _rule(
        "tool/description-long",
        is_long,
        f"A tool's description has more than {MAX_TOOL_DESCRIPTION:,} characters.",
        f"shorten the description to {MAX_TOOL_DESCRIPTION:,} characters: every call pays for it, and much hides in it",
    ),
    _rule(
        "tool/description-is-name",
        is_only_name,
        "A tool's description only repeats its name.",
        "say what the name does not",
    ),
    _rule(
        "parameter/description-missing",
        _parameter_missing,
        "A parameter has no description.",
        "say what to give here, with the unit or format if it has one",
    ),
    _rule(
        "parameter/description-short",
        _parameter_short,
        f"A parameter's description has fewer than {MIN_PARAMETER_DESCRIPTION} letters.",
        "say what to give here",
    ),
    _rule(
        "parameter/description-long",
        _parameter_long,
        f"A parameter's description has more than {MAX_PARAMETER_DESCRIPTION:,} characters.",
        f"shorten the description to {MAX_PARAMETER_DESCRIPTION:,} characters",
    ),
    _rule(
        "parameter/description-is-name",
        _parameter_is_name,
        "A parameter's description only repeats its name.",
        "say what the name does not: meaning, unit, format, example",
    ),
)


def _name_refused_by_models(subject: LintedTool) -> Iterator[Violation]:
    if len(subject.written_name) > MAX_NAME_LENGTH or not _MODEL_NAME.fullmatch(subject.written_name):
        yield Violation("/name")


def _hints_contradict(subject: LintedTool) -> Iterator[Violation]:
    hints = subject.tool.annotations
    if hints is not None and hints.read_only and hints.destructive:
        yield Violation("/annotations")


def _read_only_contradicts_name(subject: LintedTool) -> Iterator[Violation]:
    hints = subject.tool.annotations
    if hints is None or not hints.read_only:
        return
    found = _CHANGING_VERBS.search(_CAMEL_BOUNDARY.sub("_", subject.written_name[:MAX_NAME_LENGTH]).lower())
    if found:
        yield Violation("/annotations/readOnlyHint", f"the name says {found[0].strip('_.-')!r}")


def _level_missing(subject: LintedTool) -> Iterator[Violation]:
    if subject.dialect == "machine" and subject.tool.level is None:
        yield Violation("/level")


ANNOTATION_RULES = (
    ToolRule(
        id="name/refused-by-models",
        summary=f"A tool's name has more than {MAX_NAME_LENGTH} characters, or others than letters, digits, _ and -.",
        fix=f"use at most {MAX_NAME_LENGTH} letters, digits, _ and -; model APIs refuse others, and get a changed name",
        check=_name_refused_by_models,
    ),
    ToolRule(
        id="tool/hints-contradict",
        summary="A tool is annotated as both read-only and destructive.",
        fix="keep one of readOnlyHint and destructiveHint",
        check=_hints_contradict,
    ),
    ToolRule(
        id="tool/read-only-name",
        summary="A tool is annotated as read-only, but its name says that it changes something.",
        fix="set readOnlyHint to false, or rename the tool",
        check=_read_only_contradicts_name,
    ),
    ToolRule(
        id="tool/level-missing",
        summary="A Machine Context tool states no security level.",
        fix="state a securityLevel from 0 to 10; without one, 4 is assumed",
        check=_level_missing,
    ),
)


def is_safe_icon(icon: Icon) -> bool:
    """True for an https: URL or an image in a data: URI that is not declared as SVG or XML."""
    return _SAFE_SOURCE.fullmatch(icon.src) is not None and not _SCRIPTABLE.search(icon.mime_type or "")


def _unsafe_icon(subject: LintedTool) -> Iterator[Violation]:
    for index, icon in enumerate(subject.tool.icons):
        if not is_safe_icon(icon):
            yield Violation(f"/icons/{index}/src")


ICON_RULES = (
    ToolRule(
        id="tool/icon-unsafe",
        summary="An icon is neither https: nor a picture in a data: URI, or is an SVG that could hold scripts.",
        fix="use an https: address, or a PNG, JPEG or WebP as a data: URI; a hall serves the tool without this icon",
        check=_unsafe_icon,
    ),
)
