"""On what terms a request is made: the revision, what the client can do, what it wants to hear."""

import msgspec

from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import bad_params, unsupported_version
from toolhall.dialects.mcp.revisions import MODERN, Revision
from toolhall.model.exchange import LOG_LEVELS, LogLevel
from toolhall.model.json import Json, JsonObject

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{_PREFIX}protocolVersion"
_CAPABILITIES_KEY = f"{_PREFIX}clientCapabilities"
_LOG_LEVEL_KEY = f"{_PREFIX}logLevel"


class Terms(msgspec.Struct, frozen=True):
    """For the newest revision they come with each request, for the older ones from the session."""

    revision: Revision
    capabilities: JsonObject
    log_level: LogLevel | None = None
    progress_token: str | int | None = None

    def can(self, feature: str) -> bool:
        """Whether the client declared elicitation, elicitation.url, sampling or roots."""
        name, _, mode = feature.partition(".")
        declared = self.capabilities.get(name)
        if not isinstance(declared, dict):
            return False
        if name != "elicitation":
            return True
        # An empty object means forms, as it did before there were modes.
        return (mode or "form") in declared or (not declared and not mode)


def is_modern(request: Request) -> bool:
    """Whether a request brings its own protocol version, as the newest revision wants."""
    meta = request.params.get("_meta")
    return type(meta) is dict and VERSION_KEY in meta


def modern_terms(request: Request) -> Terms:
    """The terms in the request itself; refused with -32602 or -32022 where they are missing or not ours."""
    meta = request.params.get("_meta")
    if type(meta) is not dict:
        raise bad_params(f"params._meta must hold {VERSION_KEY} and {_CAPABILITIES_KEY}", status=400)
    version, capabilities = meta.get(VERSION_KEY), meta.get(_CAPABILITIES_KEY)
    if type(version) is not str:
        raise bad_params(f"params._meta must hold {VERSION_KEY} as a string", status=400)
    if version != MODERN.name:
        raise unsupported_version(version)
    if type(capabilities) is not dict:
        raise bad_params(f"params._meta must hold {_CAPABILITIES_KEY} as an object", status=400)
    level = meta.get(_LOG_LEVEL_KEY)
    return Terms(MODERN, capabilities, None if level is None else log_level(level), _token(meta))


def progress_token(request: Request) -> str | int | None:
    """The token under which the client wants to hear of progress."""
    meta = request.params.get("_meta")
    return _token(meta) if type(meta) is dict else None


def log_level(value: Json) -> LogLevel:
    """One of the eight levels of RFC 5424."""
    for level in LOG_LEVELS:
        if value == level:
            return level
    raise bad_params(f"the log level must be one of {', '.join(LOG_LEVELS)}")


def _token(meta: JsonObject) -> str | int | None:
    token = meta.get("progressToken")
    if token is None or type(token) in (str, int):
        return token
    raise bad_params("progressToken must be a string or a whole number")
