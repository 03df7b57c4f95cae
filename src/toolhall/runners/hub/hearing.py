"""What a tool server says while it runs a call goes to the caller, and what the caller answers goes back."""

from toolhall.authoring.context import Patience
from toolhall.dialects.hub.endings import said_of
from toolhall.dialects.hub.remote import Told, ToldLog, ToldProgress, ToldQuestion, write_answer
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import Asking, Link, Log, Progress

_MOST_RETRY_MS = 60_000


class Hearing:
    """Of one call, however often it is tried."""

    __slots__ = ("_asking", "_link", "heard", "patience")

    def __init__(self, link: Link, patience: Patience) -> None:
        self._link = link
        self.patience = patience
        self.heard = False  # the caller has heard something: a second try would be seen
        self._asking: Asking | None = None

    async def hear(self, report: Told) -> bytes | None:
        """Pass it on; the answer to a question, ready to be sent back."""
        self.heard = True
        match report:
            case ToldProgress():
                self._link.emit(Progress(report.progress, report.total, report.message))
            case ToldLog():
                self._link.emit(Log(report.level, report.data, report.logger))
            case ToldQuestion():
                return await self._answer(report)
        return None

    def close(self) -> None:
        """The call is over there; if its answer comes with a later call, that is how it ends, whatever is said."""
        if self._asking is not None:
            raise self._asking

    async def _answer(self, question: ToldQuestion) -> bytes:
        if self._asking is not None:  # it was told to unwind
            return write_answer(question.id, question.number, later=True)
        try:
            if question.retry_ms is not None:
                await self._link.detach(max(0, min(question.retry_ms, _MOST_RETRY_MS)))
                return write_answer(question.id, question.number)
            with self.patience.hold():
                answers = await self._link.ask(question.questions)
            return write_answer(question.id, question.number, answers)
        except Asking as asking:
            self._asking = asking
            return write_answer(question.id, question.number, later=True)
        except ToolhallError as error:
            return write_answer(question.id, question.number, error=said_of(error))
