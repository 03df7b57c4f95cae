"""Tools of a target, run in this process through every stage of the pipeline."""

import asyncio
import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence, Sized
from pathlib import Path

import msgspec

from toolhall.cli.failure import CommandFailed, OutOfTime
from toolhall.cli.logs import LEVEL_VARIABLE, crashes_shown
from toolhall.cli.opening import open_hall, tell_undocumented, tell_unmatched_levels
from toolhall.cli.screen import person_present, strays_aside
from toolhall.cli.settings import read_settings
from toolhall.cli.sources.lacking import lacking
from toolhall.cli.sources.offer import Attendant, Offer, Outcome, Shown, offer_of, read_outcome, with_versions
from toolhall.cli.terminal_approver import terminal_approver
from toolhall.config import Config
from toolhall.dialects.catalog import Written
from toolhall.dialects.mcp.errors import ErrorResult, say
from toolhall.dialects.mcp.questions import read_reply, write_question
from toolhall.dialects.mcp.revisions import MODERN
from toolhall.dialects.mcp.write import Server, Writer
from toolhall.dialects.partition import partition
from toolhall.dialects.written import written_in
from toolhall.model.caller import LOCAL
from toolhall.model.errors import Crashed, NeedsRequirement, NeedsVerification, ToolFailed, ToolhallError
from toolhall.model.exchange import Answer, CallTool, Event, Finished, Log, Progress
from toolhall.model.json import JsonObject, encode
from toolhall.model.question import Answered, Form, Question, Visit
from toolhall.pipeline.run import IN_LOG
from toolhall.schema.readings import Bind
from toolhall.stores.base import StoreFailed
from toolhall.stores.choosing import choose_stores

_DIALECT = "cli"


class LocalSource:
    """A hall of its own for the time of one command."""

    def __init__(self, targets: Sequence[str], config: Config) -> None:
        self.where = ", ".join(targets) or "toolhall.examples"
        self._hall = open_hall(targets, config, terminal_approver())
        self._hall.without_pages()
        snapshot = self._hall.registry.snapshot
        self._tools = [entry.tool for entry in snapshot.entries]
        self._listed = [entry.tool for entry in snapshot.listed]

    def tell_author(self) -> None:
        """Warn of tools without a docstring, and of settings that match no tool."""
        tell_undocumented(self._hall)
        tell_unmatched_levels(self._hall)

    def offers(self) -> list[Offer]:
        """Every tool, in the order it was registered."""
        return with_versions([offer_of(tool, self._hall.config.levels) for tool in self._tools])

    def written(self, dialect: str, offer: Offer | None = None) -> Shown:
        """Every tool, or this one, as a dialect says it."""
        everything = self._listed if offer is None and dialect.startswith("mcp@") else self._tools
        tools = [tool for tool in everything if offer is None or str(tool.id) == offer.id]
        kept, refused = partition(dialect, tools)
        written = written_in(dialect, kept) if kept else Written([], [])
        return Shown(written.documents, written.losses, refused)

    def call(self, offer: Offer, arguments: JsonObject, attendant: Attendant, seconds: float) -> Outcome:
        """Through the hall, as any caller's call."""
        with contextlib.ExitStack() as until_the_end:
            until_the_end.enter_context(strays_aside())
            is_local = self._hall.config.profile == "local"
            crashes = until_the_end.enter_context(crashes_shown()) if is_local else []
            runner = until_the_end.enter_context(asyncio.Runner())
            until_the_end.enter_context(self._supplied(offer, runner))
            runner.run(self._hall.enter())
            answer = runner.run(self._answer(offer, arguments, attendant, seconds))
            runner.run(self._hall.settle())
        match answer:
            case Finished():
                writer = Writer(Server(name="toolhall", version=""), MODERN)
                return read_outcome(msgspec.json.decode(writer.finished(0, answer).body)["result"])
            case ToolhallError() if isinstance(say(answer), ErrorResult):
                return Outcome(content=[{"type": "text", "text": self._explained(answer, crashes)}], is_error=True)
            case ToolhallError():
                raise CommandFailed(answer.message)
            case _:
                raise TypeError("a call in process is answered or refused")

    def bind_of(self, offer: Offer) -> Bind | None:
        """How the tool's function takes its arguments, where it is a function."""
        found = self._hall.registry.snapshot.find(offer.id or offer.name)
        return None if found is None else found.bind

    def why_not(self, wanted: str) -> str | None:  # noqa: ARG002 - a target has no states
        """Everything that a target defines is offered."""
        return None

    def close(self) -> None:
        """Close the hall."""
        self._hall.close()

    @contextlib.contextmanager
    def _supplied(self, offer: Offer, runner: asyncio.Runner) -> Generator[None]:
        """What the tool requires is in the data folder, also while another process serves from there."""
        data = self._hall.config.data
        if not offer.requirements or data is None:
            yield
            return
        try:
            stores = choose_stores(Path(data), share=True, family="peer", beside=True, briefly=True)
        except StoreFailed as failed:
            raise CommandFailed(str(failed)) from None
        with contextlib.closing(stores):
            try:
                runner.run(self._hall.supplies.open(stores))
            except StoreFailed as failed:
                raise CommandFailed(str(failed)) from None
            yield

    def _explained(self, error: ToolhallError, crashes: Sized) -> str:
        match error:
            case NeedsVerification() if not person_present():
                return f"{error.message.partition(',')[0]}: call it in a terminal (--yes does not speak for a person)"
            case NeedsRequirement():
                return lacking(error, self._hall.config.data, read_settings())
            case Crashed() if crashes:
                return f"{error.message.partition(IN_LOG)[0]}; its traceback is above"
            case Crashed():
                return f"{error.message}; to see them run it again with {LEVEL_VARIABLE}=error"
            case _:
                return error.message

    async def _answer(self, offer: Offer, arguments: JsonObject, attendant: Attendant, seconds: float) -> Answer:
        try:
            async with asyncio.timeout(seconds) as deadline:
                # By its id: all versions have one name here.
                ask = CallTool(offer.id or offer.name, arguments, _DIALECT, len(encode(arguments)))
                return await self._hall.hall.answer(ask, LOCAL, _AttendedLink(attendant, deadline.reschedule, seconds))
        except TimeoutError:
            raise OutOfTime(seconds) from None


class _AttendedLink:
    """The line from the running tool to the person at the terminal."""

    def __init__(self, attendant: Attendant, reschedule: Callable[[float | None], None], seconds: float) -> None:
        self._attendant = attendant
        self._reschedule = reschedule
        self._seconds = seconds

    def emit(self, event: Event) -> None:
        match event:
            case Progress(done, total, message):
                self._attendant.progress(done, total, message)
            case Log(level, data):
                self._attendant.log(level, data)

    def can(self, feature: str) -> bool:
        return feature.partition(".")[0] == "elicitation"

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """One after the other; the time a person takes is not the tool's."""
        self._reschedule(None)
        replies: dict[str, Answered] = {}
        for key, question in questions.items():
            match question:
                case Form() | Visit():
                    put = write_question(question, MODERN)
                    replies[key] = read_reply(question, self._attendant.answer(put["method"], put["params"]), key)
                case _:
                    raise ToolFailed("the tool asks for a model or for folders, which a terminal does not have")
        self._reschedule(asyncio.get_running_loop().time() + self._seconds)
        return replies

    async def detach(self, retry_ms: int) -> None:
        """There is no connection to let go."""
