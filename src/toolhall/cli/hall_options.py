"""Options of commands that manage a hall: HallOptions, UserSecretOptions and ConfirmOptions."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HallOptions:
    """Options that name a hall, and the output format.

    Parameters
    ----------
    url
        A running hall: its base URL, or its /mcp URL.
    data
        The data folder of a hall that does not run. [default: that of this project]
    json
        Print JSON.
    key
        The API key or token to send to --url; better put it into TOOLHALL_KEY, because others can read command lines.
    """

    url: str | None = None
    data: Path | None = None
    json: bool = False
    key: str | None = None

    @property
    def running(self) -> bool:
        """Whether the command talks to a running hall, at --url."""
        return self.url is not None


@dataclass(frozen=True)
class UserSecretOptions(HallOptions):
    """Options that name a hall and the owner of a secret.

    Parameters
    ----------
    user
        The user who owns it; without this it is the hall's, for every user without one of their own.
    """

    user: str | None = None


@dataclass(frozen=True)
class ConfirmOptions(HallOptions):
    """Options of commands that ask for confirmation.

    Parameters
    ----------
    yes
        Do it without being asked.
    """

    yes: bool = False
