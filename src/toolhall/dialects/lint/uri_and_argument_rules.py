"""Lint rules about resources and prompts: their descriptions, URIs and templates, and the arguments of prompts.

The rules about texts, icons and duplicates are those of tools. A model or person chooses a resource by its description,
and a client reads whatever its URI says.
"""

import re
from collections.abc import Callable, Iterator

from toolhall.dialects.lint.metadata_rules import (
    MAX_PARAMETER_DESCRIPTION,
    MAX_TOOL_DESCRIPTION,
    is_long,
    is_missing,
    is_only_name,
    is_short,
)
from toolhall.dialects.lint.rule import LintedTool, ToolRule, Violation
from toolhall.model.tool import Kind, ResourceInfo
from toolhall.model.uri_expansion import BadUriTemplate, Expression, parse_template
from toolhall.model.uri_template import UriTemplate

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Up to the first / ? or #, so that an @ in a path or a query is none of an authority.
_USER_INFO = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@]*@")
_FETCHABLE = frozenset({"http", "https", "ftp"})
_FILE = "file"


def _info(subject: LintedTool) -> tuple[ResourceInfo, str] | None:
    """What the resource states, and the pointer to its URI or template."""
    info = subject.tool.resource
    return None if info is None else (info, "/uriTemplate" if info.is_template else "/uri")


def _scheme(info: ResourceInfo) -> str:
    found = _SCHEME.match(info.uri)
    return found[1].lower() if found else ""


def _uri_refused(subject: LintedTool) -> Iterator[Violation]:
    if (stated := _info(subject)) is not None:
        info, path = stated
        try:
            UriTemplate(info.uri)
        except BadUriTemplate as bad:
            yield Violation(path, str(bad))


def _uri_with_credentials(subject: LintedTool) -> Iterator[Violation]:
    if (stated := _info(subject)) is not None and _USER_INFO.match(stated[0].uri):
        yield Violation(stated[1])


def _uri_fetchable(subject: LintedTool) -> Iterator[Violation]:
    if (stated := _info(subject)) is not None and _scheme(stated[0]) in _FETCHABLE:
        yield Violation(stated[1])


def _uri_of_file(subject: LintedTool) -> Iterator[Violation]:
    if (stated := _info(subject)) is not None and _scheme(stated[0]) == _FILE:
        yield Violation(stated[1])


def _variable_spans(subject: LintedTool) -> Iterator[Violation]:
    """Variables of a path that take several segments."""
    if (stated := _info(subject)) is None:
        return
    info, path = stated
    try:
        expressions = [part for part in parse_template(info.uri) if isinstance(part, Expression)]
    except BadUriTemplate:
        return
    for each in expressions:
        names = each.names if each.operator.reserved else [name for name in each.names if name in each.exploded]
        if names and not each.operator.is_query:
            yield Violation(path, ", ".join(names))


def _argument_missing(subject: LintedTool) -> Iterator[Violation]:
    for index, (_, text) in enumerate(_arguments(subject)):
        if not text.strip():
            yield Violation(f"/arguments/{index}")


def _argument_long(subject: LintedTool) -> Iterator[Violation]:
    for index, (_, text) in enumerate(_arguments(subject)):
        if len(text) > MAX_PARAMETER_DESCRIPTION:
            yield Violation(f"/arguments/{index}/description", f"it has {len(text):,}")


def _arguments(subject: LintedTool) -> Iterator[tuple[str, str]]:
    """The arguments of a prompt in order, each with its description."""
    if subject.tool.prompt is not None:
        for name, schema in subject.tool.input.get("properties", {}).items():
            yield name, schema.get("description", "") if isinstance(schema, dict) else ""


def _description_rules(kind: Kind, what: str) -> tuple[ToolRule, ...]:
    """The rules about the description of one kind."""

    def rule(name: str, check: Callable[[LintedTool], Iterator[Violation]], summary: str, fix: str) -> ToolRule:
        return ToolRule(id=f"{kind}/description-{name}", summary=f"A {kind}'s {summary}", fix=fix, check=check)

    return (
        rule("missing", is_missing, "definition has no description.", f"say in a sentence {what}"),
        rule("short", is_short, "description has fewer than 10 letters.", f"say in a sentence {what}"),
        rule(
            "long",
            is_long,
            f"description has more than {MAX_TOOL_DESCRIPTION:,} characters.",
            f"shorten the description to {MAX_TOOL_DESCRIPTION:,} characters: every client reads it",
        ),
        rule("is-name", is_only_name, "description only repeats its name.", "say what the name does not"),
    )


RESOURCE_RULES = (
    *_description_rules("resource", "what one reads there and when it helps"),
    ToolRule(
        id="resource/uri-refused",
        summary="A URI or URI template is not valid, or cannot be matched in one way only.",
        fix="write a URI with a scheme of your own, and variables such as {name}, {+path} and {?query}",
        severity="error",
        check=_uri_refused,
    ),
    ToolRule(
        id="resource/uri-credentials",
        summary="A URI holds a user name or a password.",
        fix="remove it from the URI, and renew it if it was real: everybody who lists the resource reads it",
        severity="error",
        check=_uri_with_credentials,
    ),
    ToolRule(
        id="resource/uri-fetchable",
        summary="A URI begins with http:, https: or ftp:, so that clients may fetch it themselves.",
        fix="use a scheme of your own, unless every client may fetch it from there without the server",
        check=_uri_fetchable,
    ),
    ToolRule(
        id="resource/uri-file",
        summary="A URI begins with file:, so that clients may read it from their own disk.",
        fix="use a scheme of your own: clients have other files, and the path tells where yours are",
        check=_uri_of_file,
    ),
    ToolRule(
        id="resource/variable-spans",
        summary="A variable of a template takes slashes, so that the caller chooses a whole path.",
        fix="write {name} for one segment, or make sure that no path leaves its folder, as Folder does",
        check=_variable_spans,
    ),
)
PROMPT_RULES = (
    *_description_rules("prompt", "what the prompt writes and when to choose it"),
    ToolRule(
        id="prompt/argument-undescribed",
        summary="An argument of a prompt has no description.",
        fix="say what to give here: a person fills it in, and MCP has no types for arguments",
        check=_argument_missing,
    ),
    ToolRule(
        id="prompt/argument-long",
        summary=f"The description of a prompt's argument has more than {MAX_PARAMETER_DESCRIPTION:,} characters.",
        fix=f"shorten the description to {MAX_PARAMETER_DESCRIPTION:,} characters",
        check=_argument_long,
    ),
)
