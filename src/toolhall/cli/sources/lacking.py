"""What a tool in a file lacks, with the one line to copy that sets it up in the data folder it is supplied from."""

import shlex

from toolhall.config import Config
from toolhall.model.errors import NeedsRequirement
from toolhall.model.requirements import AccountNeed, Missing

_NO_FOLDER = "the target's Toolhall has no folder to keep it in: set data in its Config(...)"


def lacking(error: NeedsRequirement, data: str | None, settings: Config) -> str:
    """The words; `settings` are what the commands will find, and `data` is where the tool is supplied from."""
    found = [_of(each, settings) for each in error.missing]
    known = [each for each in found if each is not None]
    if not known or len(known) != len(found):
        return error.message  # no command sets up all of it
    what = " and ".join(what for what, _ in known)
    if data is None:
        return f"the tool needs {what}; {_NO_FOLDER}"
    place = [] if data == settings.data else ["--data", data]
    return f"the tool needs {what}; run: {' && '.join(shlex.join([*words, *place]) for _, words in known)}"


def _of(missing: Missing, settings: Config) -> tuple[str, list[str]] | None:
    """What is missing, and the command for it; None where there is none."""
    match missing:
        case Missing(kind="secret", id=str(name)):
            return f"the secret {name}", ["toolhall", "secret", "set", name]
        case Missing(kind="account", account=AccountNeed(provider, scopes)) if provider in settings.providers:
            asked = ["--scopes", " ".join(scopes)] if scopes else []
            # No hall runs to which a browser could come back.
            return f"an account at {provider}", ["toolhall", "account", "connect", provider, *asked, "--no-browser"]
        case _:
            return None
