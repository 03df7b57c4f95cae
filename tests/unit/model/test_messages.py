"""The link that leads nowhere, and the signal that unwinds a tool."""

from toolhall.model.messages import NULL_LINK, InputRequiredSignal, LogEvent, ProgressEvent, Roots


async def test_null_link_drops_events_and_returns_no_replies() -> None:
    NULL_LINK.emit(ProgressEvent(1))
    NULL_LINK.emit(LogEvent("info", "hello"))
    await NULL_LINK.detach(500)
    assert not NULL_LINK.can("roots")
    assert await NULL_LINK.ask({"where": Roots()}) == {}


def test_input_required_signal_is_not_caught_by_except_exception() -> None:
    assert not issubclass(InputRequiredSignal, Exception)
    asking = InputRequiredSignal({"where": Roots(), "when": Roots()})
    assert (str(asking), set(asking.questions)) == ("where, when", {"where", "when"})
