"""Rules about what model APIs cannot take of a schema; such a tool is offered there all the same, but promises less."""

from collections.abc import Iterator

from toolhall.dialects.gemini import parameters as gemini
from toolhall.dialects.lint.rule import Spot, Subject, ToolRule
from toolhall.dialects.openai.strict import NotStrict, strict_parameters
from toolhall.schema.reshape import reshape

# Strict mode also wants every object closed and every member required; hardly any tool is, so that is left unsaid.
_USUAL = frozenset({"additionalProperties", "required", "type", "default"})
_STRICT = "openai/strict-"


def _not_strict(subject: Subject) -> Iterator[Spot]:
    try:
        strict_parameters(subject.tool.input)
    except NotStrict as refused:
        named = [(each.path, each.rule.removeprefix(_STRICT)) for each in refused.findings if _STRICT in each.rule]
        yield from _together([(path, keyword) for path, keyword in named if keyword not in _USUAL])


def _not_for_gemini(subject: Subject) -> Iterator[Spot]:
    lost = [each for each in reshape(subject.tool.input, gemini.TARGET).lost if each.widens and each.keyword]
    yield from _together([(f"/inputSchema{each.path}", each.keyword) for each in lost if each.keyword not in _USUAL])


def _together(lost: list[tuple[str, str]]) -> Iterator[Spot]:
    """One warning for all keywords of a tool, at the first of them."""
    if lost:
        yield Spot(lost[0][0], ", ".join(sorted({keyword for _, keyword in lost})))


RULES = (
    ToolRule(
        id="schema/not-for-openai-strict",
        says="A schema uses keywords that OpenAI's strict mode refuses.",
        fix="leave these out, or convert to openai and not to openai@strict",
        check=_not_strict,
    ),
    ToolRule(
        id="schema/not-for-gemini",
        says="A schema uses keywords that Gemini cannot take; more arguments are accepted there.",
        fix="leave these out, or check them in the tool as well",
        check=_not_for_gemini,
    ),
)
