"""Finds the tool; one that the caller may not see does not exist."""

from toolhall.model.call import Call
from toolhall.model.errors import NotFound
from toolhall.pipeline.authorize import Policy
from toolhall.pipeline.sanitize import clean_text
from toolhall.pipeline.states import Found
from toolhall.registry.registry import Registry


class Find:
    """By published name or by id."""

    def __init__(self, registry: Registry, policy: Policy) -> None:
        self._registry = registry
        self._policy = policy

    def __call__(self, call: Call) -> Found:
        """The tool, or NotFound."""
        entry = self._registry.snapshot.find(call.tool)
        if entry is None or not self._policy.sees(call.caller, entry.tool):
            raise NotFound(f"unknown tool: {clean_text(call.tool[:128])}")
        return Found(call, entry)
