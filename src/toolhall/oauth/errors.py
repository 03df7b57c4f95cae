"""Errors between a hall and an OAuth provider; no message repeats text that a provider or a browser sent."""

import re

from toolhall.model.errors import Limited, Refused
from toolhall.stores.approvals import CoolingDown

_ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class BadProvider(ValueError):
    """The settings of a provider cannot be used; the message names it and the fix."""


class UnknownProvider(Refused):
    """The settings have no provider of this name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        listed = f"known are {', '.join(known)}" if known else "none is set up"
        super().__init__(f"there is no provider {name!r} ({listed}); the operator adds it to `providers`")


class LinkFailed(Refused):
    """The account could not be linked; the message is for the person who tried."""

    message = "this link is not good any more: call the tool again to get a new one"


class TooManyLinks(Limited):
    """Too many links of this caller are pending."""

    def __init__(self, refused: CoolingDown) -> None:
        super().__init__(refused.seconds)
        self.message = (
            "too many accounts of this caller wait to be connected; open one of the links,"
            f" or ask again in {refused.seconds:.0f} seconds"
        )
        self.args = (self.message,)


class ProviderRefused(Exception):
    """The provider answered with an OAuth error; a code that is not well-formed is not repeated."""

    def __init__(self, code: object) -> None:
        self.code = code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else "an unknown error"
        super().__init__(f"the provider refuses: {self.code}")


class ProviderUnreachable(Exception):
    """The provider did not give a usable response; the message is for the log. A retry may succeed."""
