"""From a request to the ask it stands for."""

from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import bad_params
from toolhall.model.exchange import CallTool, ListTools


def read_list(request: Request) -> ListTools:
    """`tools/list`."""
    cursor = request.params.get("cursor")
    if cursor is not None and type(cursor) is not str:
        raise bad_params("cursor must be a string")
    return ListTools(cursor)


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
