"""Parser and expansion of URI templates (RFC 6570): levels 1 to 3, and explode on paths (`{/x*}`).

What could not be matched back is refused where the template is parsed: a prefix (`{x:3}`) cuts the value, and exploded
lists elsewhere than in a path have no names that a URI could be checked against.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias
from urllib.parse import quote

import msgspec

MAX_URI_LENGTH = 8_192  # of a URI and of a template, in ASCII characters
MAX_VARIABLES = 16
UriValue: TypeAlias = str | Sequence[str]  # a sequence is the value of an exploded variable
_RESERVED = ":/?#[]@!$&'()*+,;="  # RFC 3986, 2.2
_TRIPLET = re.compile(r"(%[0-9A-Fa-f]{2})")
_NAME = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_NO_LITERAL = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})")  # RFC 6570, 2.1
_FUTURE_OPERATORS = "=,!@|"  # RFC 6570, 2.2: reserved


class BadUriTemplate(ValueError):
    """A URI template that cannot be served; the message names the problem and the fix."""


class Operator(msgspec.Struct, frozen=True):
    """How one kind of expression is expanded (RFC 6570, appendix A)."""

    first: str
    separator: str
    named: bool = False
    if_empty: str = ""  # what follows the name of an empty value
    reserved: bool = False  # whether reserved characters and percent-encoded triplets stay as they are

    @property
    def is_query(self) -> bool:
        """Whether this is `{?x}` or `{&x}`."""
        return self.separator == "&"


OPERATORS: Final = {
    "": Operator("", ","),
    "+": Operator("", ",", reserved=True),
    "#": Operator("#", ",", reserved=True),
    ".": Operator(".", "."),
    "/": Operator("/", "/"),
    ";": Operator(";", ";", named=True),
    "?": Operator("?", "&", named=True, if_empty="="),
    "&": Operator("&", "&", named=True, if_empty="="),
}


class Expression(msgspec.Struct, frozen=True):
    """One `{...}` of a template."""

    text: str
    operator: Operator
    names: tuple[str, ...]
    exploded: frozenset[str] = frozenset()

    def expand(self, values: Mapping[str, UriValue]) -> str:
        """The expansion; variables that are missing, or empty lists, leave nothing behind."""
        parts = [part for name in self.names if (part := self._expand_variable(name, values.get(name))) is not None]
        return self.operator.first + self.operator.separator.join(parts) if parts else ""

    def _expand_variable(self, name: str, value: UriValue | None) -> str | None:
        if value is None or (not isinstance(value, str) and not value):
            return None
        joined = "," if name not in self.exploded else self.operator.separator
        values = [value] if isinstance(value, str) else value
        encoded = joined.join(encode_value(each, reserved=self.operator.reserved) for each in values)
        if not self.operator.named:
            return encoded
        return f"{name}={encoded}" if encoded else f"{name}{self.operator.if_empty}"


TemplatePart: TypeAlias = str | Expression  # a literal is ASCII, as it stands in a URI


def encode_value(value: str, *, reserved: bool) -> str:
    """Percent-encode a value as UTF-8: all but unreserved characters, or all but those, reserved ones and triplets."""
    if not reserved:
        return quote(value, safe="")
    if "%" not in value:
        return quote(value, safe=_RESERVED)
    return "".join(
        part if index % 2 else quote(part, safe=_RESERVED) for index, part in enumerate(_TRIPLET.split(value))
    )


def expand_template(text: str, values: Mapping[str, UriValue]) -> str:
    """Expand any template of levels 1 to 3, also one that could not be matched; raises BadUriTemplate."""
    return expand_parts(parse_template(text), values)


def expand_parts(parts: Sequence[TemplatePart], values: Mapping[str, UriValue]) -> str:
    """Expand a parsed template."""
    return "".join(part if isinstance(part, str) else part.expand(values) for part in parts)


def parse_template(text: str) -> tuple[TemplatePart, ...]:
    """The literals and expressions of a template, in order; raises BadUriTemplate."""
    if len(text) > MAX_URI_LENGTH:
        raise BadUriTemplate(f"the URI template is longer than {MAX_URI_LENGTH} characters; shorten it")
    return tuple(_parts_of(text))


def _parts_of(text: str) -> Iterator[TemplatePart]:
    end = 0
    while (start := text.find("{", end)) >= 0:
        if start > end:
            yield _literal(text, text[end:start])
        close = text.find("}", start)
        if close < 0:
            raise BadUriTemplate(f"{text!r}: a '{{' is not closed; write a '}}' behind the variable")
        yield _expression(text[start : close + 1])
        end = close + 1
    if end < len(text):
        yield _literal(text, text[end:])


def _literal(text: str, literal: str) -> str:
    if problem := _NO_LITERAL.search(literal):
        character = problem[0]
        fix = "write %25 for the character itself" if character == "%" else f"write it as {quote(character)}"
        raise BadUriTemplate(f"{text!r}: {character!r} cannot stand in a URI; {fix}")
    try:
        return literal if literal.isascii() else quote(literal, safe=_RESERVED + "%")
    except UnicodeEncodeError:
        raise BadUriTemplate(f"{text!r}: a lone surrogate cannot stand in a URI; remove it") from None


def _expression(text: str) -> Expression:
    inside = text[1:-1]
    sign = inside[:1] if inside[:1] in OPERATORS else ""
    if inside[:1] and inside[0] in _FUTURE_OPERATORS:
        raise BadUriTemplate(f"{text!r}: RFC 6570 gives '{inside[0]}' no meaning; use one of {' '.join(OPERATORS)[1:]}")
    names: list[str] = []
    exploded: set[str] = set()
    for variable in inside.removeprefix(sign).split(","):
        name = variable.removesuffix("*")
        if name != variable:
            _check_exploded(text, sign, name)
            exploded.add(name)
        if ":" in name:
            plain = text.replace(name, name.partition(":")[0])
            raise BadUriTemplate(f"{text!r}: a prefix cuts the value, so no URI could be matched; write {plain}")
        if not _NAME.fullmatch(name):
            raise BadUriTemplate(f"{text!r}: {name!r} is not a variable; use letters, digits and '_', such as {{id}}")
        names.append(name)
    return Expression(text, OPERATORS[sign], tuple(names), frozenset(exploded))


def _check_exploded(text: str, sign: str, name: str) -> None:
    if sign == "/":
        return
    if OPERATORS[sign].is_query:
        raise BadUriTemplate(
            f"{text!r}: '*' would take any query name; name each query variable, such as {{{sign}status,limit}}"
        )
    raise BadUriTemplate(f"{text!r}: '*' is served on paths only; write {{/{name}*}} or {{+{name}}}")
