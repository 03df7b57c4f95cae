"""Supplies what the tool requires: fetched late, held briefly."""

from toolhall.pipeline.redactor import redactor_for
from toolhall.pipeline.states import Equipped, Verified


class Equip:
    """No tool can declare a requirement yet: the only secret that a call uses is its caller's credential."""

    def __call__(self, verified: Verified) -> Equipped:
        """Equipped with what hides that secret, where there is one."""
        call = verified.call
        credential = call.caller.credential  # a tool that gets hold of it must not show it to anyone
        redactor = None if credential is None else redactor_for(credential)
        return Equipped(call, verified.entry, verified.verdict, verified.arguments, verified.approval, redactor)
