"""The link that leads nowhere, and the signal that unwinds a tool."""

from toolhall.model.exchange import SILENT, Asking, Log, Progress
from toolhall.model.question import Roots


async def test_a_silent_link_drops_events_and_answers_nothing() -> None:
    SILENT.emit(Progress(1))
    SILENT.emit(Log("info", "hello"))
    await SILENT.detach(500)
    assert not SILENT.can("roots")
    assert await SILENT.ask({"where": Roots()}) == {}


def test_asking_is_not_swallowed_by_a_tool_that_catches_every_exception() -> None:
    assert not issubclass(Asking, Exception)
    asking = Asking({"where": Roots(), "when": Roots()})
    assert (str(asking), set(asking.questions)) == ("where, when", {"where", "when"})
