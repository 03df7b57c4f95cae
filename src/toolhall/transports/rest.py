"""Plain REST for everybody else: `POST /tools/{toolkit}/{tool}`."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from email.utils import format_datetime
from urllib.parse import quote

from toolhall.dialects import strict
from toolhall.dialects.openai.catalog import STRICT_DIALECTS
from toolhall.dialects.openai.strict import read_arguments
from toolhall.dialects.openapi.errors import write_error
from toolhall.dialects.values import text_of, value_of
from toolhall.hall import Hall
from toolhall.model.errors import Malformed, NotFound, ToolFailed, ToolhallError
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.transports.asgi import Headers
from toolhall.transports.exchange import Exchange
from toolhall.transports.plain_link import PLAIN
from toolhall.transports.presence import WhilePresent
from toolhall.transports.shield import Shield

DIALECT = "openapi"
PREFIX = "/tools/"


class Rest:
    """The body is the arguments, the reply is the value."""

    def __init__(self, hall: Hall, shield: Shield, prefix: Callable[[], str] = str) -> None:
        self._hall = hall
        self._prefix = prefix  # of the hall's paths, where it is mounted
        self._shield = shield

    async def call(self, exchange: Exchange) -> None:
        """Run one tool."""
        body = b"" if _is_bare(exchange.headers) else await self._shield.body(exchange.headers, exchange.receive)
        answer = await WhilePresent(exchange, self._answer(exchange, body))
        if answer is not None:
            await exchange.reply(_written(answer, self._prefix))

    async def _answer(self, exchange: Exchange, body: bytes) -> Answer:
        parts = exchange.below(PREFIX)
        try:
            if len(parts) != 2:
                raise NotFound("there is no such tool; use /tools/TOOLKIT/TOOL")
            arguments = _arguments(body)
            version, dialect = _asked(exchange.parameters) if exchange.query else (None, None)
        except ToolhallError as error:
            return self._hall.refuse(CallTool(".".join(parts), {}, DIALECT, len(body)), exchange.caller, error)
        entry = self._hall.registry.published.find(DIALECT, (parts[0], parts[1]), version)
        if entry is not None and self._hall.find(entry.id, exchange.caller):
            if dialect is not None:
                arguments = read_arguments(arguments, entry.accepts, len(body))
            return await self._hall.answer(CallTool(entry.id, arguments, DIALECT, len(body)), exchange.caller, PLAIN)
        name = ".".join(parts) + ("" if version is None else f"@{version}")
        answer = await self._hall.answer(CallTool(name, arguments, DIALECT, len(body)), exchange.caller, PLAIN)
        return NotFound(f"{answer.message}; GET /tools lists them") if type(answer) is NotFound else answer


def _arguments(body: bytes) -> JsonObject:
    arguments = strict.decode(body) if body else {}
    if isinstance(arguments, dict):
        return arguments
    raise Malformed("the body must be an object with the tool's arguments")


def _asked(parameters: dict[str, str]) -> tuple[str | None, str | None]:
    """Which version, and the dialect of the arguments; what else is asked for would be ignored without notice."""
    version, dialect = parameters.get("version"), parameters.get("dialect")
    if version == "":
        raise Malformed("version is empty; name one such as 1.0.0, or leave it out for the newest")
    if dialect not in (None, *STRICT_DIALECTS):
        raise Malformed(f"dialect must be {' or '.join(STRICT_DIALECTS)}, or left out for plain arguments")
    if not parameters.keys() <= {"version", "dialect"}:
        raise Malformed("the query takes version and dialect only; the tool's arguments belong into the body")
    return version, dialect


def _is_bare(headers: Headers) -> bool:
    """Whether a request has no body at all; then it need not say of which type."""
    stated = headers.keys() & {b"content-type", b"content-encoding", b"transfer-encoding"}
    return not stated and headers.get(b"content-length", b"0") == b"0"


def _farewell(tool: Tool, prefix: Callable[[], str]) -> tuple[tuple[bytes, bytes], ...]:
    """What HTTP says of a tool that will go: since when (RFC 9745), when (RFC 8594), what to call then (RFC 5829)."""
    if tool.deprecation is None:
        return ()
    said = [(b"deprecation", b"@%d" % tool.deprecation.since)] if tool.deprecation.since is not None else []
    if tool.deprecation.sunset is not None:
        day = datetime.combine(date.fromisoformat(tool.deprecation.sunset), datetime.min.time(), UTC)
        said.append((b"sunset", format_datetime(day, usegmt=True).encode()))
    if tool.deprecation.successor is not None:
        key, _, version = tool.deprecation.successor.partition("@")
        path = "/".join(quote(part, safe="") for part in key.rpartition(".")[::2])
        asked = f"?version={quote(version, safe='')}" if version else ""
        said.append((b"link", f'<{prefix()}{PREFIX}{path}{asked}>; rel="successor-version"'.encode()))
    return tuple(said)


def _written(answer: Answer, prefix: Callable[[], str]) -> Wire:
    if isinstance(answer, Finished):
        if answer.result.is_error:
            return write_error(ToolFailed(text_of(answer)))
        return Wire(value_of(answer), headers=_farewell(answer.tool, prefix))
    if isinstance(answer, ToolhallError):
        return write_error(answer)
    raise TypeError("REST has no way to ask a caller back")
