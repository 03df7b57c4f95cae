"""Supplies what the tool requires: fetched late, held briefly."""

from toolhall.pipeline.states import Equipped, Verified


class Equip:
    """No tool can declare a requirement yet, so there is nothing to fetch."""

    def __call__(self, verified: Verified) -> Equipped:
        """Equipped."""
        return Equipped(verified.call, verified.entry, verified.verdict, verified.arguments, verified.approval)
