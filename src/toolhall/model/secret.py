"""A value that must not be shown: it can be used, and neither printed, logged, copied, pickled nor encoded."""

from collections.abc import Callable
from hmac import compare_digest
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
SHORTEST = 4


class Secret:
    """Says nothing of itself but whether it equals another; `reveal()` is the one way to its value."""

    __slots__ = ("_known", "_value")

    def __init__(self, value: str) -> None:
        if len(value) < SHORTEST:
            raise ValueError(f"a secret has at least {SHORTEST} characters: a shorter one cannot be kept out of texts")
        self._value = value
        self._known: Any = None

    def reveal(self) -> str:
        """The value; only for whoever sends it where it belongs."""
        return self._value

    def known(self, work_out: Callable[[str], T]) -> T:
        """What is worked out from the value: once, then kept with it and gone with it."""
        if self._known is None:
            self._known = work_out(self._value)
        return self._known  # type: ignore[no-any-return]

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
