"""Errors between a hall and an OAuth provider; no message repeats text that a provider or a browser sent."""

import re

from toolhall.model.errors import Limited, Refused
from toolhall.stores.approvals import CoolingDown

_ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class BadProvider(ValueError):
    """A provider in the settings that cannot be used; the message names it and the fix."""


class UnknownProvider(Refused):
    """Nobody has set this provider up."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        listed = f"known are {', '.join(known)}" if known else "none is set up"
        super().__init__(f"there is no provider {name!r} ({listed}); the operator adds it to `providers`")


class LinkFailed(Refused):
    """An account was not connected; the message is for the person who tried."""

    message = "this link is not good any more: call the tool again to get a new one"


class TooManyLinks(Limited):
    """A caller waits for a few links at a time."""

    def __init__(self, refused: CoolingDown) -> None:
        super().__init__(refused.seconds)
        self.message = (
            "too many accounts of this caller wait to be connected; open one of the links,"
            f" or ask again in {refused.seconds:.0f} seconds"
        )
        self.args = (self.message,)


class ProviderRefused(Exception):
    """The provider said no, in OAuth's words; a word that is none of OAuth's is not repeated."""

    def __init__(self, code: object) -> None:
        self.code = code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else "an unknown error"
        super().__init__(f"the provider refuses: {self.code}")


class ProviderUnreachable(Exception):
    """The provider did not answer as it should; the message is for the log, and the same request may succeed later."""
