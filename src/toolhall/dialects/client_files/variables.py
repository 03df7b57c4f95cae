"""Variables in clients' files: VariableFiller replaces them from a mapping and collects those that are not set.

The spellings are `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${userHome}`, `${workspaceFolder}`, `${input:id}`,
opencode's `{env:VAR}`, and a value that is nothing but `$VAR` (Gemini), replaced only where that variable is set.
A mapping has variables of the environment under their names, `userHome`, `workspaceFolder`, and inputs as `input:id`.
`${secret:NAME}` is the hall's own and stays. A replaced value is not read again: `$` in it is text.
"""

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$\{([^{}\n]{1,512})\}")
_OPENCODE_VARIABLE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]{0,127})\}")
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]{0,127})")
_NOT_IN_SECRET = re.compile(r"[^A-Za-z0-9_.-]+")
_FALLBACK = ":-"
SECRET_PREFIX = "secret:"  # noqa: S105 - of a reference
INPUT_PREFIX = "input:"


class VariableFiller:
    """Fills the texts of one server, and collects the names of the variables that it uses and of those not set.

    Where a variable is not set, a text that may hold secrets gets a reference to a secret of that name, and any other
    text gets the bare name, which nobody may use as a value.
    """

    def __init__(self, variables: Mapping[str, str], *, opencode: bool = False) -> None:
        self._variables = variables
        self._opencode = opencode
        self.used: dict[str, None] = {}
        self.missing: dict[str, None] = {}  # where no secret can stand in
        self.missing_secrets: dict[str, None] = {}
        self.bare: dict[str, None] = {}
        self.unset_bare: dict[str, None] = {}  # which stay as they are written

    def fill(self, text: str, *, may_hold_secret: bool = False) -> str:
        """The text with its variables replaced."""
        if (bare := _BARE.fullmatch(text)) is not None:
            if bare[1] not in self._variables:
                self.unset_bare[bare[1]] = None
                return text
            self.bare[bare[1]] = None
            return self.lookup(bare[1], may_hold_secret=may_hold_secret)
        if self._opencode and "{env:" in text:
            return _OPENCODE_VARIABLE.sub(lambda found: self.lookup(found[1], may_hold_secret=may_hold_secret), text)
        if "${" not in text:
            return text
        return _VARIABLE.sub(lambda found: self._fill_one(found, may_hold_secret=may_hold_secret), text)

    def lookup(self, name: str, fallback: str | None = None, *, may_hold_secret: bool = False) -> str:
        """The value of one variable, its fallback, or what stands there while it is not set."""
        self.used[name] = None
        value = self._variables.get(name)
        if value is None or (value == "" and fallback is not None):
            value = fallback
        if value is not None:
            return value
        if may_hold_secret:
            self.missing_secrets[name] = None
            return f"${{{SECRET_PREFIX}{secret_name(name)}}}"
        self.missing[name] = None
        return name.removeprefix(INPUT_PREFIX)

    def _fill_one(self, found: re.Match[str], *, may_hold_secret: bool) -> str:
        inner = found[1].strip()
        if inner.startswith(SECRET_PREFIX):
            return found[0]
        name, separator, fallback = inner.partition(_FALLBACK)
        name = name.removeprefix("env:")
        return self.lookup(name, fallback if separator else None, may_hold_secret=may_hold_secret)


def secret_name(text: str) -> str:
    """A name of a secret, made from the name of a variable, a header or an input."""
    name = _NOT_IN_SECRET.sub("_", text.removeprefix(INPUT_PREFIX)).strip(".-")[:96] or "SECRET"
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"
