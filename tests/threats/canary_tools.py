"""Tools that tell what they were supplied with, in every form, to all who listen; and one that tells no secret."""

import logging
from typing import Any

from tests.unit.redaction.secret_encodings import EVERY
from toolhall import Context, ToolFailed, Toolkit, tool

NAME = "CANARY_KEY"
LOGGED = "LOGGED_KEY"
HOW = ("returns", "fails", "raises")
_log = logging.getLogger("toolhall.canary")
_own_log = logging.getLogger("canary.http_client")
_own_log.addHandler(logging.StreamHandler())


class Canary(Toolkit, name="Canary", version="1.0.0"):
    """Each reveals the values that it was supplied with."""

    @tool(secrets=[NAME], level=4, effect="reads")
    async def keyed(self, ctx: Context, how: str) -> dict[str, Any]:
        """Use a secret."""
        return reveal(ctx, ctx.secret(NAME), how)

    @tool(account="acme:mail.read", level=4, effect="reads")
    async def linked(self, ctx: Context, how: str) -> dict[str, Any]:
        """Use an account."""
        return reveal(ctx, ctx.account.token, how)

    @tool(secrets=[NAME], account="acme:mail.read", level=4, effect="reads", isolated=True)
    def apart(self, ctx: Context, how: str) -> dict[str, Any]:
        """Use both, in a process of its own."""
        tell(ctx, ctx.account.token)
        tell(ctx, ctx.secret(NAME))
        return end({"token": ctx.account.token, **forms_of(ctx.secret(NAME))}, how)

    @tool(secrets=[LOGGED], level=4, effect="reads", isolated=True)
    def logs_apart(self, ctx: Context) -> None:
        """Log a secret in a process of its own."""
        log(ctx.secret(LOGGED))

    @tool(level=4, effect="reads")
    async def open(self, ctx: Context, how: str, word: str) -> dict[str, Any]:
        """Use what everybody may know."""
        return reveal(ctx, word, how)


def reveal(ctx: Context, value: str, how: str) -> dict[str, Any]:
    """Tell it to whoever listens, log it, and answer with it."""
    tell(ctx, value)
    log(value)
    return end(forms_of(value), how)


def forms_of(value: str) -> dict[str, str]:
    """The value in every form."""
    return {form: write(value) for form, write in EVERY.items()}


def tell(ctx: Context, value: str) -> None:
    """As progress, and to the client's log."""
    ctx.progress(1, None, "\n".join(forms_of(value).values()))
    ctx.log(forms_of(value), "error")


def log(value: str) -> None:
    """To our log, and by a library that writes by itself."""
    for text in forms_of(value).values():
        _log.error("cannot reach %s", text)
        _own_log.error("%s", text)


def end(forms: dict[str, str], how: str) -> dict[str, Any]:
    """With a result, with an error that the author wrote, or with one that nobody expected."""
    everything = " ".join(forms.values())
    if how == "fails":
        raise ToolFailed(everything, detail=everything, prompt=everything)
    if how == "raises":
        try:
            raise ValueError(everything)
        except ValueError as error:
            raise RuntimeError(f"https://user:{forms['raw']}@h.example/?key={forms['raw']}") from error
    return {"values": list(forms.values()), forms["raw"]: forms}
