"""Lints documents (Linter): catalog findings, rule violations, and conflicts between the tools of all documents."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Generic

from toolhall.dialects.base import Catalog
from toolhall.dialects.catalogs import detect_dialect, readable_catalog
from toolhall.dialects.convert.loss_reasons import document_pointer
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.lint import cross_tool_rules, metadata_rules, schema_rules, text_rules, uri_and_argument_rules
from toolhall.dialects.lint.cross_tool_rules import CrossToolChecker, Where
from toolhall.dialects.lint.rule import LintedTool, Rule, ToolRule
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.tool import Tool
from toolhall.schema.annotations import header_parameters
from toolhall.schema.cost import BadSchema
from toolhall.schema.keywords import HEADER_KEYWORD, may_contain
from toolhall.schema.validator import Validator

BAD_SCHEMA = Rule(
    id="schema/refused",
    summary="A schema is not valid JSON Schema, refers outside itself, or would take too long to check.",
    fix="change this part of the schema",
    severity="error",
)
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$]{1,32}")  # a key too plain to hide a message in
_PLAIN_RULES: tuple[ToolRule, ...] = (
    *metadata_rules.DESCRIPTION_RULES,
    *metadata_rules.ANNOTATION_RULES,
    *metadata_rules.ICON_RULES,
)
# Rules that read schemas; they run only if the schemas are valid.
_SOUND_SCHEMA_RULES: tuple[ToolRule, ...] = (*schema_rules.WHOLE_SCHEMA_RULES, *schema_rules.MODEL_API_RULES)
_RESOURCE_RULES = (*uri_and_argument_rules.RESOURCE_RULES, *metadata_rules.ICON_RULES)
_PROMPT_RULES = (*uri_and_argument_rules.PROMPT_RULES, *metadata_rules.ICON_RULES)
ALL_RULES: tuple[Rule, ...] = (
    BAD_SCHEMA,
    *cross_tool_rules.CROSS_TOOL_RULES,
    *_PLAIN_RULES,
    *uri_and_argument_rules.RESOURCE_RULES,
    *uri_and_argument_rules.PROMPT_RULES,
    *schema_rules.SCHEMA_RULES,
    *schema_rules.MODEL_API_RULES,
    *text_rules.TEXT_RULES,
)


class Linter(Generic[Where]):
    """Lints any number of documents; one instance for all files, because tools are compared with each other."""

    def __init__(self, source: str | None = None) -> None:
        self._source = readable_catalog(source) if source else None
        self._cross_tool: CrossToolChecker[Where] = CrossToolChecker()

    def lint(self, document: Json, document_name: str, where: Where, listed_as: str = "") -> Iterator[Finding]:
        """The findings of one document; `document_name` and `where` identify it in findings of other documents.

        `listed_as` is the member of a result that listed the document, see detect_dialect.
        """
        yield from _lint_texts(document)
        try:
            catalog = self._source or detect_dialect(document, listed_as)
            tools = catalog.read(document)
        except BadDocument as bad:
            yield from bad.findings
            return
        duplicates = list(self._cross_tool.add_toolkit(tools[0].id, document_name)) if catalog.grouped else []
        yield from duplicates
        for index, tool in enumerate(tools):
            subject = LintedTool(tool, catalog.name, _written_name(document, catalog, tool))
            path = document_pointer("", document, catalog, index)
            for finding in self._cross_tool.add(subject, document_name, where, path):
                # A duplicate toolkit has duplicate ids; report it once.
                if not (duplicates and finding.rule == cross_tool_rules.DUPLICATE_ID.id):
                    yield finding
            for finding in _lint_definition(subject):
                yield _in_document(finding, document, catalog, index)

    def finish(self, other_names: Collection[str] = ()) -> Iterator[tuple[Where, Finding]]:
        """Findings that need all tools; `other_names` are names of further tools, in lower case."""
        return self._cross_tool.mentions(other_names)


def _lint_texts(document: Json) -> Iterator[Finding]:
    """Every rule that a string of the document violates; keys are strings too."""
    pending: list[tuple[str, Json]] = [("", document)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield from (rule.finding(path) for rule in text_rules.violated_rules(value))
        elif isinstance(value, list):
            pending.extend([(f"{path}/{index}", part) for index, part in enumerate(value)][::-1])
        elif isinstance(value, dict):
            inner = [(f"{path}/{escape_pointer(key)}", part) for key, part in value.items()]
            for key, (pointer, _) in zip(value, inner, strict=True):
                if not _PLAIN_KEY.fullmatch(key):
                    yield from (rule.finding(pointer) for rule in text_rules.violated_rules(key))
            pending.extend(inner[::-1])


def _written_name(document: JsonObject, catalog: Catalog, tool: Tool) -> str:
    """The name in the document, which may differ from the published one."""
    if catalog.grouped:
        return f"{tool.id.toolkit}_{tool.id.tool}"
    function = document.get("function")
    name = (function if isinstance(function, dict) else document).get("name")
    return name if isinstance(name, str) else tool.name


def _lint_definition(subject: LintedTool) -> Iterator[Finding]:
    if subject.tool.kind == "tool":
        yield from _lint_tool(subject)
        return
    # What MCP says of variables and arguments is no schema of its author's.
    for rule in _RESOURCE_RULES if subject.tool.kind == "resource" else _PROMPT_RULES:
        for violation in rule.check(subject):
            yield rule.finding(violation.path, violation.detail)


def _lint_tool(subject: LintedTool) -> Iterator[Finding]:
    problems = list(_schema_problems(subject.tool))
    yield from problems
    if not problems:
        yield from schema_rules.lint_subschemas(subject.tool.input, "/inputSchema")
    for rule in _PLAIN_RULES if problems else (*_PLAIN_RULES, *_SOUND_SCHEMA_RULES):
        for violation in rule.check(subject):
            yield rule.finding(violation.path, violation.detail)


def _schema_problems(tool: Tool) -> Iterator[Finding]:
    yield from _schema_findings("/inputSchema", tool.input, _usable_input)
    if tool.output.schema is not None:
        yield from _schema_findings("/outputSchema", tool.output.schema, Validator)


def _usable_input(schema: JsonObject) -> None:
    Validator(schema)  # first, because it bounds the cost of everything that follows
    if may_contain(schema, HEADER_KEYWORD):
        header_parameters(schema)


def _schema_findings(pointer: str, schema: JsonObject, use: Callable[[JsonObject], object]) -> Iterator[Finding]:
    try:
        use(schema)
    except BadSchema as bad:
        yield from (BAD_SCHEMA.finding(pointer + problem.path, problem.reason) for problem in bad.problems)


def _in_document(finding: Finding, document: JsonObject, catalog: Catalog, index: int) -> Finding:
    """The finding with a pointer into the document instead of the model."""
    path = document_pointer(_by_parameter_index(finding.path, document, catalog, index), document, catalog, index)
    return Finding(path, finding.rule, finding.fix, finding.severity)


def _by_parameter_index(path: str, document: JsonObject, catalog: Catalog, index: int) -> str:
    """Replace a parameter's name by its index, because Machine Context lists parameters."""
    parts = path.split("/", 4)
    if catalog.name != "machine" or len(parts) < 4 or parts[1:3] != ["inputSchema", "properties"]:
        return path
    listed = document["capabilities"][index].get("parameters") or []
    names = [escape_pointer(str(parameter.get("name"))) for parameter in listed]
    rest = "".join(f"/{part}" for part in parts[4:])
    return f"/parameters/{names.index(parts[3])}{rest}" if parts[3] in names else path
