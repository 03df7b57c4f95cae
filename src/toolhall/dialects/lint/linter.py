"""Lints documents one after the other: what the catalogs refuse, what the rules find, what tools have in common."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Generic

from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import readable
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.lint import crowd, descriptions, icons, promises, schemas, targets, texts
from toolhall.dialects.lint.crowd import Crowd, Where
from toolhall.dialects.lint.rule import Rule, Subject, ToolRule
from toolhall.dialects.pointers import located
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.bounds import BadSchema
from toolhall.schema.headers import has_headers, header_parameters
from toolhall.schema.validator import Validator
from toolhall.schema.walk import escape

BAD_SCHEMA = Rule(
    id="schema/refused",
    says="A schema is not valid JSON Schema, refers outside itself, or would take too long to check.",
    fix="change this part of the schema",
    severity="error",
)
_NAME = re.compile(r"[A-Za-z0-9_$]{1,32}")  # a key in which no text can stand
_PLAIN: tuple[ToolRule, ...] = (*descriptions.RULES, *promises.RULES, *icons.RULES)
# These look into schemas, and only into such as are sound.
_OF_SCHEMAS: tuple[ToolRule, ...] = (*schemas.RULES_OF_WHOLE, *targets.RULES)
RULES: tuple[Rule, ...] = (BAD_SCHEMA, *crowd.RULES, *_PLAIN, *schemas.RULES, *targets.RULES, *texts.RULES)


class Linter(Generic[Where]):
    """One for all files, because tools are compared with each other."""

    def __init__(self, source: str | None = None) -> None:
        self._source = readable(source) if source else None
        self._crowd: Crowd[Where] = Crowd()

    def lint(self, document: Json, place: str, where: Where) -> Iterator[Finding]:
        """What is wrong with one document, which others will know by its place."""
        yield from _texts(document)
        try:
            catalog = self._source or detected(document)
            tools = catalog.read(document)
        except BadDocument as bad:
            yield from bad.findings
            return
        twice = list(self._crowd.add_toolkit(tools[0].id, place)) if catalog.grouped else []
        yield from twice
        for number, tool in enumerate(tools):
            subject = Subject(tool, catalog.name, _stated(document, catalog, tool))
            path = located("", document, catalog, number)
            for finding in self._crowd.add(subject, place, where, path):
                if not (twice and finding.rule == crowd.ID_TWICE.id):  # one fault, said once
                    yield finding
            for finding in _tool(subject):
                yield _moved(finding, document, catalog, number)

    def finish(self, beside: Collection[str] = ()) -> Iterator[tuple[Where, Finding]]:
        """What can only be said once all tools are known; `beside` are names of others, in small letters."""
        return self._crowd.mentions(beside)


def _texts(document: Json) -> Iterator[Finding]:
    """Every rule that a text breaks, once for each text; keys are texts too."""
    pending: list[tuple[str, Json]] = [("", document)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield from (rule.finding(path) for rule in texts.broken(value))
        elif isinstance(value, list):
            pending.extend([(f"{path}/{index}", part) for index, part in enumerate(value)][::-1])
        elif isinstance(value, dict):
            inner = [(f"{path}/{escape(key)}", part) for key, part in value.items()]
            for key, (place, _) in zip(value, inner, strict=True):
                if not _NAME.fullmatch(key):
                    yield from (rule.finding(place) for rule in texts.broken(key))
            pending.extend(inner[::-1])


def _stated(document: JsonObject, catalog: Catalog, tool: Tool) -> str:
    """The name as it was written, which is not always the one it is published under."""
    if catalog.grouped:
        return f"{tool.id.toolkit}_{tool.id.tool}"
    function = document.get("function")
    name = (function if isinstance(function, dict) else document).get("name")
    return name if isinstance(name, str) else tool.name


def _tool(subject: Subject) -> Iterator[Finding]:
    problems = list(_schema_problems(subject.tool))
    yield from problems
    if not problems:
        yield from schemas.lint_parts(subject.tool.input, "/inputSchema")
    for rule in _PLAIN if problems else (*_PLAIN, *_OF_SCHEMAS):
        for spot in rule.check(subject):
            yield rule.finding(spot.path, spot.detail)


def _schema_problems(tool: Tool) -> Iterator[Finding]:
    yield from _refused("/inputSchema", tool.input, _usable_input)
    if tool.output.schema is not None:
        yield from _refused("/outputSchema", tool.output.schema, Validator)


def _usable_input(schema: JsonObject) -> None:
    Validator(schema)  # first: it bounds how long anything else can take
    if has_headers(schema):
        header_parameters(schema)


def _refused(place: str, schema: JsonObject, use: Callable[[JsonObject], object]) -> Iterator[Finding]:
    try:
        use(schema)
    except BadSchema as bad:
        yield from (BAD_SCHEMA.finding(place + problem.path, problem.reason) for problem in bad.problems)


def _moved(finding: Finding, document: JsonObject, catalog: Catalog, number: int) -> Finding:
    """The finding with a pointer into the document instead of the model."""
    path = located(_listed(finding.path, document, catalog, number), document, catalog, number)
    return Finding(path, finding.rule, finding.fix, finding.severity)


def _listed(path: str, document: JsonObject, catalog: Catalog, number: int) -> str:
    """Machine Context lists its parameters, so a name becomes a number."""
    parts = path.split("/", 4)
    if catalog.name != "machine" or len(parts) < 4 or parts[1:3] != ["inputSchema", "properties"]:
        return path
    listed = document["capabilities"][number].get("parameters") or []
    names = [escape(str(parameter.get("name"))) for parameter in listed]
    rest = "".join(f"/{part}" for part in parts[4:])
    return f"/parameters/{names.index(parts[3])}{rest}" if parts[3] in names else path
