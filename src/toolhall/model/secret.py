"""Secret, a value that cannot be printed, logged, copied or pickled; and names that suggest a secret.

`is_secret_name` recognizes `password`, `X-API-Key`, `dbPassWord` and `user_pin` in any spelling.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from hmac import compare_digest
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
MIN_SECRET_LENGTH = 4  # shorter values would be redacted from ordinary text


# The patterns are texts, which `re` compiles when they are first used.
# Matched anywhere in a name that is reduced to its letters and digits.
_SECRET_SUBSTRING = (
    r"passw(?:or)?d|passphrase|passcode|passwort|kennwort|contrasena|motdepasse|senha"  # noqa: S105 - a pattern
    r"|secret|credential|authoriz|authoris|bearer|cookie|connectionstring|sessionid|sessid|jwt"
    r"|token(?!i[sz])"  # a tokenizer holds none
    r"|(?:api|app|access|account|activation|auth|client|deploy|encryption|hmac|license|master|pass|private|recovery"
    r"|service|session|shared|signing|ssh|storage|webhook)key"
    r"|(?:auth|mfa|otp|pin|recovery|security|verification)code|onetimecode|clientassertion|samlresponse"
    r"|seedphrase|mnemonic|creditcard|cardnumber"
)
# Also parts of harmless words, so they are matched as whole words only: `user_pin`, but not `pinned`.
_SECRET_WORDS = frozenset({"auth", "cvc", "cvv", "otp", "pass", "pin", "pw", "pwd", "sid", "ssn", "totp"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MAX_NAME_LENGTH = 256
_SECRET_INPUT_NAME = r"(?i)password|passwd|(^|[_-])pass$|secret|token|api_?key|credential|authorization"  # noqa: S105


class Secret:
    """A secret value; only `reveal()` returns it. Comparison takes constant time."""

    __slots__ = ("_derived", "_value")

    def __init__(self, value: str) -> None:
        if len(value) < MIN_SECRET_LENGTH:
            raise ValueError(
                f"a secret has at least {MIN_SECRET_LENGTH} characters: a shorter one could not be redacted"
            )
        self._value = value
        self._derived: Any = None

    def reveal(self) -> str:
        """The value; call this only to send it to its destination."""
        return self._value

    def derived(self, compute: Callable[[str], T]) -> T:
        """A result computed from the value, cached as long as the Secret lives (one `compute` per Secret)."""
        if self._derived is None:
            self._derived = compute(self._value)
        return self._derived  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(_bytes(self._value), _bytes(other._value))

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __repr__(self) -> str:
        return "<secret>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not copied or pickled")


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogatepass")


def is_secret_name(name: str) -> bool:
    """Whether values of this name must be redacted; True also for names that are too long to be checked."""
    return len(name) > _MAX_NAME_LENGTH or _matches_secret_name(name)


@lru_cache(maxsize=1024)
def _matches_secret_name(name: str) -> bool:
    normalized = _normalized(name)
    joined = "".join(filter(str.isalnum, normalized)).casefold()
    return bool(re.search(_SECRET_SUBSTRING, joined)) or any(
        word.casefold() in _SECRET_WORDS for word in _WORD.findall(normalized)
    )


def looks_secret(name: str) -> bool:
    """Whether an author's name for an input (a form field, a header) suggests a password, a key or a token.

    Unlike `is_secret_name` it does not normalize spellings, and it also matches harmless words such as `tokenizer`:
    the author can rename the field.
    """
    return bool(re.search(_SECRET_INPUT_NAME, name))


def is_count_name(name: str) -> bool:
    """Whether a number of this name is a count: `max_tokens` is not a secret."""
    return "".join(filter(str.isalnum, _normalized(name))).casefold().endswith("tokens")


def _normalized(name: str) -> str:
    """Without accents and compatibility forms of letters."""
    return unicodedata.normalize("NFKD", name)
