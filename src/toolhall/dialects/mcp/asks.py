"""From a request to the ask it stands for."""

import msgspec

from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import bad_params
from toolhall.dialects.mcp.revisions import Revision, negotiated
from toolhall.model.exchange import CallTool
from toolhall.model.json import JsonObject

VERSIONS_KEY = "dev.toolhall/versions"


class Hello(msgspec.Struct, frozen=True):
    """What a client says of itself in the handshake of the older revisions."""

    revision: Revision
    capabilities: JsonObject


def read_initialize(request: Request) -> Hello:
    """`initialize`; a version that is not ours is answered with one that is."""
    version, capabilities = request.params.get("protocolVersion"), request.params.get("capabilities")
    if type(version) is not str or type(capabilities) is not dict:
        raise bad_params("initialize needs protocolVersion as a string and capabilities as an object")
    return Hello(negotiated(version), capabilities)


class Listing(msgspec.Struct, frozen=True):
    """What a client wants to see of the list; every version of a tool, or the one that its name means."""

    cursor: str | None = None
    versions: bool = False


def read_list(request: Request) -> Listing:
    """`tools/list`."""
    cursor = request.params.get("cursor")
    if cursor is not None and type(cursor) is not str:
        raise bad_params("cursor must be a string")
    return Listing(cursor, wants_versions(request))


def wants_versions(request: Request) -> bool:
    """Whether a request is about every version of the tools; only ever said by clients that know us."""
    meta = request.params.get("_meta")
    if type(meta) is not dict or VERSIONS_KEY not in meta:
        return False
    if meta[VERSIONS_KEY] != "all":
        raise bad_params(f'params._meta["{VERSIONS_KEY}"] must be "all"; leave it out for one version of each tool')
    return True


def read_call(request: Request, dialect: str, size: int) -> CallTool:
    """`tools/call`; bad values of arguments are the tool's business, a bad shape is refused here."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if type(name) is not str:
        raise bad_params("params.name must be the name of a tool")
    if arguments is None:
        arguments = {}
    elif type(arguments) is not dict:
        raise bad_params("params.arguments must be an object")
    return CallTool(name, arguments, dialect, size)
