"""LocalToolClient: loads targets and runs what they define in this process, through every stage of the pipeline."""

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence, Sized
from pathlib import Path

import msgspec

from toolhall.cli.call_ui import terminal_approver
from toolhall.cli.clients.base import (
    CallResult,
    CallUI,
    DescribedT,
    RenderedTools,
    ToolInfo,
    UnknownResource,
    read_call_result,
    tool_info,
    with_all_versions,
)
from toolhall.cli.clients.descriptions import (
    PromptDescription,
    ResourceDescription,
    describe_prompt,
    describe_resource,
)
from toolhall.cli.errors import CallTimeout, CommandError
from toolhall.cli.logs import LEVEL_VARIABLE, print_crashes
from toolhall.cli.output import is_interactive, stdout_to_stderr
from toolhall.cli.settings import read_config_with_data
from toolhall.cli.startup import build_app, warn_undocumented, warn_unmatched_levels
from toolhall.config import Config
from toolhall.dialects.mcp.errors import ErrorResult, translate_error
from toolhall.dialects.mcp.input_requests import read_input_response, write_input_request
from toolhall.dialects.mcp.prompts import write_prompt
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28, REVISIONS, Revision
from toolhall.dialects.mcp.resources import write_resource
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo, write_listed_tool
from toolhall.model.caller import LOCAL, STEP_UP_FROM, effective_level
from toolhall.model.errors import Crashed, NeedsRequirement, NeedsVerification, NotFound, ToolFailed, ToolhallError
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import (
    Answer,
    Answered,
    CallEvent,
    CallTool,
    CompletedCall,
    Form,
    Freshness,
    LogEvent,
    ProgressEvent,
    Question,
    Visit,
)
from toolhall.model.requirements import AccountRequirement, MissingRequirement
from toolhall.model.tool import PromptInfo, ResourceInfo, Tool
from toolhall.oauth.providers import UPSTREAM_PREFIX
from toolhall.pipeline.run import IN_LOG
from toolhall.schema.defaults import Bind
from toolhall.stores.common import StoreFailed

_DIALECT = "cli"
_NO_FOLDER = "the target's Toolhall has no folder to keep it in: set data in its Config(...)"


def missing_requirements_text(error: NeedsRequirement, data: str | None, settings: Config) -> str:
    """What the tool needs, with the commands that set it up.

    `data` is the data folder of the call, `settings` are those that the commands will read.
    """
    setups = [_setup_command(each, settings) for each in error.missing]
    known = [each for each in setups if each is not None]
    if not known or len(known) != len(setups):
        return error.message  # no command sets up all of it
    what = " and ".join(what for what, _ in known)
    if data is None:
        return f"the tool needs {what}; {_NO_FOLDER}"
    option = [] if data == settings.data else ["--data", data]
    return f"the tool needs {what}; run: {' && '.join(shlex.join([*words, *option]) for _, words in known)}"


def _setup_command(missing: MissingRequirement, settings: Config) -> tuple[str, list[str]] | None:
    """What is missing, and the command that sets it up; None if no command does."""
    match missing:
        case MissingRequirement(kind="secret", id=str(name)):
            return f"the secret {name}", ["toolhall", "secret", "set", name]
        case MissingRequirement(kind="account", account=AccountRequirement(provider, scopes)) if (
            provider in settings.providers or provider.startswith(UPSTREAM_PREFIX)
        ):
            option = ["--scopes", " ".join(scopes)] if scopes else []
            # No hall runs to which a browser could be redirected.
            return f"an account at {provider}", ["toolhall", "account", "connect", provider, *option, "--no-browser"]
        case _:
            return None


class LocalToolClient:
    """A ToolClient with a hall of its own, for the time of one command."""

    def __init__(self, targets: Sequence[str], config: Config) -> None:
        self.where = ", ".join(targets) or "toolhall.examples"
        self._app = build_app(targets, config, terminal_approver())
        self._app.without_pages()
        snapshot = self._app.registry.snapshot
        self._tools = [entry.tool for entry in snapshot.entries]
        self._listed = [entry.tool for entry in snapshot.listed]

    def print_warnings(self) -> None:
        """Warn of tools without a docstring, and of settings that match no tool."""
        warn_undocumented(self._app)
        warn_unmatched_levels(self._app)

    def tools(self) -> list[ToolInfo]:
        """Every tool, in the order it was registered."""
        return with_all_versions([tool_info(tool, self._app.config.levels) for tool in self._tools])

    def render(self, dialect: str, info: ToolInfo | None = None) -> RenderedTools:
        """All tools, or this one, as documents of a dialect."""
        from toolhall.dialects.convert.export import partition_expressible, write_tools  # lazy: every dialect

        candidates = self._listed if info is None and dialect.startswith("mcp@") else self._tools
        tools = [tool for tool in candidates if info is None or str(tool.id) == info.id]
        expressible, refused = partition_expressible(dialect, tools)
        if not expressible:
            return RenderedTools([], [], refused)
        written = write_tools(dialect, expressible)
        return RenderedTools(written.documents, written.losses, refused)

    def resources_and_prompts(self, revision: str) -> list[JsonObject]:
        """The definitions of all resources, templates and prompts, as a client of this revision of MCP sees them."""
        snapshot = self._app.registry.snapshot
        pages = snapshot.resources.pages, snapshot.resources.template_pages, snapshot.prompts.pages
        return [write_listed_tool(tool, REVISIONS[revision]) for page in pages for tool in page.tools]

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> CallResult:
        """Call a tool through the hall's pipeline, like any caller."""
        # By id, because all versions share one name here.
        request = CallTool(info.id or info.name, arguments, _DIALECT, len(encode(arguments)))
        answer, crashes = self._run(request, needs_credentials=bool(info.requirements), ui=ui, seconds=seconds)
        match answer:
            case CompletedCall():
                return read_call_result(_mcp_result(answer, self._app.dispatcher.freshness(answer.tool)))
            case ToolhallError() if isinstance(translate_error(answer), ErrorResult):
                return CallResult(content=[{"type": "text", "text": self._error_text(answer, crashes)}], is_error=True)
            case ToolhallError():
                raise CommandError(answer.message)
            case _:
                raise TypeError("a call in process is answered or refused")

    def resources(self) -> list[ResourceDescription]:
        """Every listed resource, then every listed URI template, in the order they were registered."""
        listing = self._app.registry.snapshot.resources
        listed = (*listing.pages.tools, *listing.template_pages.tools)
        described = (
            describe_resource(_views_of(tool, write_resource), effective_level=self._level_of(tool), schema=tool.input)
            for tool in listed
        )
        return [each for each in described if each is not None]

    def prompts(self) -> list[PromptDescription]:
        """Every prompt, in the order it was registered."""
        listed = (entry.tool for entry in self._app.registry.snapshot.prompts.listed)
        described = (
            describe_prompt(_views_of(tool, write_prompt), effective_level=self._level_of(tool), schema=tool.input)
            for tool in listed
        )
        return [each for each in described if each is not None]

    def read_resource(self, uri: str, ui: CallUI, seconds: float) -> JsonObject:
        """Read a resource through the hall's pipeline, like any caller."""
        match = self._app.registry.snapshot.resources.match(uri)
        needs_credentials = match is not None and match.value.requirements is not None
        request = CallTool(uri, {}, _DIALECT, len(uri), requested_name=uri, kind="resource")
        return self._complete(request, needs_credentials=needs_credentials, ui=ui, seconds=seconds)

    def get_prompt(self, name: str, arguments: dict[str, str], ui: CallUI, seconds: float) -> JsonObject:
        """Get a prompt through the hall's pipeline, like any caller."""
        entry = self._app.registry.snapshot.prompts.find(name)
        needs_credentials = entry is not None and entry.requirements is not None
        request = CallTool(name, dict(arguments), _DIALECT, len(encode(arguments)), kind="prompt")
        return self._complete(request, needs_credentials=needs_credentials, ui=ui, seconds=seconds)

    def _complete(self, request: CallTool, *, needs_credentials: bool, ui: CallUI, seconds: float) -> JsonObject:
        """The result of a read or a prompt, with MCP's members; raises UnknownResource, or CommandError."""
        answer, crashes = self._run(request, needs_credentials=needs_credentials, ui=ui, seconds=seconds)
        match answer:
            case CompletedCall():
                return _mcp_result(answer, self._app.dispatcher.freshness(answer.tool))
            case NotFound() if request.kind == "resource":
                raise UnknownResource(answer.message)
            case ToolhallError():
                raise CommandError(self._error_text(answer, crashes))
            case _:
                raise TypeError("a read or a prompt in process is answered or refused")

    def _run(self, request: CallTool, *, needs_credentials: bool, ui: CallUI, seconds: float) -> tuple[Answer, Sized]:
        """Run a request through the hall's pipeline; returns its answer, and the tracebacks that were printed."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(stdout_to_stderr())
            is_local = self._app.config.profile == "local"
            crashes = stack.enter_context(print_crashes()) if is_local else []
            runner = stack.enter_context(asyncio.Runner())
            if needs_credentials:
                stack.enter_context(self._with_credentials(runner))
            runner.run(self._app.enter())
            answer = runner.run(self._answer(request, ui, seconds))
            runner.run(self._app.settle())
        return answer, crashes

    def _level_of(self, tool: Tool) -> int:
        return effective_level(tool, self._app.config.levels)

    def with_levels(self, described: list[DescribedT]) -> list[DescribedT]:
        """The same: they have their levels."""
        return described

    def asks_before(self, info: ToolInfo) -> bool:
        """True from the level on that needs a person's approval, which --yes does not replace."""
        return (info.effective_level or 0) >= STEP_UP_FROM

    def argument_binding(self, info: ToolInfo) -> Bind | None:
        """How the tool's function takes its arguments; None for a tool that is not a function."""
        entry = self._app.registry.snapshot.find(info.id or info.name)
        return None if entry is None else entry.bind

    def unavailable_reason(self, name: str) -> str | None:
        """What to do with a prompt or resource, which is no tool; every tool of a target can be called."""
        entry = self._app.registry.snapshot.find_any(name) or self._app.registry.snapshot.prompts.find(name)
        match entry and entry.tool:
            case Tool(resource=ResourceInfo(uri=uri)):
                return f"{name} is a resource; read it with 'toolhall read {uri}'"
            case Tool(prompt=PromptInfo()):
                return f"{name} is a prompt; get it with 'toolhall prompt {name}'"
            case _:
                return None

    def close(self) -> None:
        """Close the hall."""
        self._app.close()

    @contextlib.contextmanager
    def _with_credentials(self, runner: asyncio.Runner) -> Generator[None]:
        """Context in which the tool gets secrets and accounts from the data folder, also beside a running server."""
        data = self._app.config.data
        if data is None:
            yield
            return
        from toolhall.stores.open import open_stores  # lazy: only for a tool that requires a credential

        try:
            stores = open_stores(Path(data), allow_readonly=True, role="peer", tools_optional=True, short_lived=True)
        except StoreFailed as failed:
            raise CommandError(str(failed)) from None
        with contextlib.closing(stores):
            try:
                runner.run(self._app.credentials.open(stores))
            except StoreFailed as failed:
                raise CommandError(str(failed)) from None
            yield

    def _error_text(self, error: ToolhallError, crashes: Sized) -> str:
        match error:
            case NeedsVerification() if not is_interactive():
                return f"{error.message.partition(',')[0]}: call it in a terminal (--yes does not speak for a person)"
            case NeedsRequirement():
                return missing_requirements_text(error, self._app.config.data, read_config_with_data())
            case Crashed() if crashes:
                return f"{error.message.partition(IN_LOG)[0]}; its traceback is above"
            case Crashed():
                return f"{error.message}; to see them run it again with {LEVEL_VARIABLE}=error"
            case _:
                return error.message

    async def _answer(self, request: CallTool, ui: CallUI, seconds: float) -> Answer:
        try:
            async with asyncio.timeout(seconds) as deadline:
                return await self._app.dispatcher.answer(request, LOCAL, _CallUILink(ui, deadline.reschedule, seconds))
        except TimeoutError:
            raise CallTimeout(seconds) from None


def _mcp_result(answer: CompletedCall, freshness: Freshness) -> JsonObject:
    """The result as a client of the newest revision of MCP gets it."""
    writer = McpEncoder(ServerInfo(name="toolhall", version=""), REVISION_2026_07_28)
    result: JsonObject = msgspec.json.decode(writer.result(0, answer, freshness).body)["result"]
    return result


def _views_of(tool: Tool, write: Callable[[Tool, Revision], JsonObject]) -> dict[str, JsonObject]:
    """The MCP documents of a resource or prompt, by revision."""
    return {f"mcp@{name}": write(tool, revision) for name, revision in REVISIONS.items()}


class _CallUILink:
    """ClientLink from the running tool to a CallUI."""

    def __init__(self, ui: CallUI, reschedule: Callable[[float | None], None], seconds: float) -> None:
        self._ui = ui
        self._reschedule = reschedule
        self._seconds = seconds

    def emit(self, event: CallEvent) -> None:
        match event:
            case ProgressEvent(done, total, message):
                self._ui.progress(done, total, message)
            case LogEvent(level, data):
                self._ui.log(level, data)
            case _:
                return

    waits_for_tasks = True  # whoever sits at the terminal waits

    def can(self, feature: str) -> bool:
        return feature.partition(".")[0] == "elicitation"

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Ask the questions one after another; the deadline pauses meanwhile."""
        self._reschedule(None)
        replies: dict[str, Answered] = {}
        for key, question in questions.items():
            match question:
                case Form() | Visit():
                    request = write_input_request(question, REVISION_2026_07_28)
                    reply = self._ui.answer(request["method"], request["params"])
                    replies[key] = read_input_response(question, reply, key)
                case _:
                    raise ToolFailed("the tool asks for a model or for folders, which a terminal does not have")
        self._reschedule(asyncio.get_running_loop().time() + self._seconds)
        return replies

    async def detach(self, retry_ms: int) -> None:
        """Nothing: there is no connection."""
