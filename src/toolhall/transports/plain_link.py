"""The line to a caller whose dialect knows no notices and no questions: one request, one reply."""

from collections.abc import Mapping

from toolhall.dialects.mcp.questions import feature_of
from toolhall.model.errors import Unsupported
from toolhall.model.exchange import Event
from toolhall.model.question import Answered, Question


class PlainLink:
    """Unlike a tool that runs in nobody's call, one that asks here is refused, as by any client that cannot answer."""

    def emit(self, event: Event) -> None:
        """There is no way to tell."""

    def can(self, feature: str) -> bool:  # noqa: ARG002 - none
        """Nothing."""
        return False

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Refuse the call for what it needs first."""
        for question in questions.values():
            raise Unsupported(feature_of(question))
        return {}

    async def detach(self, retry_ms: int) -> None:
        """There is no coming back."""


PLAIN = PlainLink()
