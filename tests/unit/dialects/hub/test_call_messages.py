"""Vectors of the messages between hall and tool server, shared with the TypeScript SDK, in both directions."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tables import each_row
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.hub import catalog
from toolhall.dialects.hub.call_messages import (
    AnswerMessage,
    CallContext,
    ChangedMessage,
    ErrorPayload,
    LogMessage,
    ProgressMessage,
    QuestionMessage,
    RemoteCall,
    ResponseMessage,
    ToolResponseMessage,
    read_hub_message,
    read_tool_server_message,
    remote_call,
    write_answer,
    write_call,
    write_changed,
    write_log,
    write_progress,
    write_question,
    write_request,
)
from toolhall.dialects.hub.catalog import write_declaration
from toolhall.dialects.hub.content import read_answers, read_blocks, read_questions, write_questions_or_answers
from toolhall.dialects.hub.messages import HubRequest, write_response
from toolhall.dialects.hub.results import (
    NoSuchMethod,
    NotStarted,
    messages_or_raise,
    read_tool_server_error,
    result_or_raise,
    write_contents,
    write_failure,
    write_result,
)
from toolhall.dialects.mcp.content import write_block
from toolhall.model import errors
from toolhall.model.content import Reply, Result
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId, published_name
from toolhall.model.tool import EFFECT_ANNOTATIONS as IMPLIED
from toolhall.model.tool import Annotations, Output, PromptInfo, ResourceInfo, Tool, ToolkitInfo

VECTORS = Path(__file__).parents[3] / "vectors" / "hub" / "toolserver"
HINTS = {
    "title": "title",
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
REFUSALS = (errors.Malformed, errors.BadOutput, BadDocument)
MOST_WAIT_SECONDS = 3_600  # a tool server sends nobody away for longer
READ_ONLY = {
    "begun, then lost": "that a call was begun is what the hall assumes; only that it was not is said",
    "a method that nobody has": "what a tool server refuses is written by the hub's own messages",
}


def vectors(*files: str) -> Iterator[Any]:
    """Each vector of these files, called by its name."""
    for file in files:
        for vector in json.loads((VECTORS / f"{file}.json").read_text("utf-8")):
            yield pytest.param(file, vector, id=f"{file}: {vector['name']}")


def is_written(parameter: Any) -> bool:
    vector = parameter.values[1]
    return "meaning" in vector and "only" not in vector and vector["name"] not in READ_ONLY


EVERY = [*vectors("calls", "answers", "core", "reports", "responses", "errors", "declarations")]


@each_row(("file", "vector"), EVERY)
def test_vector_is_read_as_expected(file: str, vector: JsonObject) -> None:
    wire = json.dumps(vector["wire"]).encode()
    if vector.get("refused"):
        with pytest.raises(REFUSALS):
            READERS[file](wire)
    else:
        assert exact(READERS[file](wire)) == exact(vector["meaning"])


@each_row(("file", "vector"), [each for each in EVERY if is_written(each)])
def test_vector_is_written_as_expected(file: str, vector: JsonObject) -> None:
    written = WRITERS[file](vector["meaning"])
    assert exact(READERS[file](written)) == exact(vector["meaning"])
    assert exact(brief(json.loads(written))) == exact(brief(vector["wire"]))


def test_vectors_all_files_are_used() -> None:
    assert {file.stem for file in VECTORS.glob("*.json")} == READERS.keys() | {"redacting"}  # a test of the redactor's


@each_row(("file", "vector"), [each for each in vectors("errors") if "meaning" in each.values[1]])
def test_vector_code_maps_to_error(file: str, vector: JsonObject) -> None:
    """Whatever the code, the words for the model and what it may do next survive."""
    meant = vector["meaning"]
    details = meant["details"]
    error = read_tool_server_error(ErrorPayload(meant["code"], meant["message"], details))
    expected = NotStarted if details.get("started") is False else COUNTS_AS[meant["counts_as"]]
    assert type(error) in (expected, errors.ToolError if expected is errors.ToolFailed else expected)
    match error:
        case errors.Crashed():
            assert error.detail == meant["message"]
        case errors.ToolFailed():
            assert (error.message, error.retry_after) == (meant["message"], details.get("retry_after"))
            assert (error.can_retry, error.prompt) == (details.get("can_retry", False), details.get("prompt"))
        case errors.BadArguments():
            assert exact(error.problems) == exact(details["problems"])
        case errors.Unsupported():
            assert error.feature == details["feature"]
        case errors.Limited():
            assert error.retry_after == min(details["retry_after"], MOST_WAIT_SECONDS)
        case _:
            pass


COUNTS_AS: dict[str, type[errors.ToolhallError]] = {
    "TOOL_ERROR": errors.ToolFailed,
    "INVALID_PARAMS": errors.BadArguments,
    "METHOD_NOT_FOUND": NotStarted,  # the hall knows the method: it is the server that has lost it
    "TOOL_NOT_FOUND": NotStarted,
    "UNSUPPORTED": errors.Unsupported,
    "RATE_LIMITED": errors.Limited,
    "TIMEOUT": errors.TimedOut,
    "CANCELLED": errors.Crashed,  # the hall cancelled nothing
    "INTERNAL_ERROR": errors.Crashed,
    "UNAVAILABLE": errors.Unavailable,
}


# --- reading ----------------------------------------------------------------------------------------------------------


def read_hall(wire: bytes) -> JsonObject:
    """What a tool server makes of a message."""
    match read_hub_message(wire):
        case RemoteCall() as call:
            context = {name: plain(getattr(call.context, name)) for name in CallContext.__struct_fields__}
            same = ("id", "tool", "method", "params", "version", "uri", "complete")
            stated = {name: getattr(call, name) for name in same}
            return {"kind": "call", **stated, "of": call.kind, "context": context}
        case AnswerMessage(call_id, number, answers, error, later):
            said = None if error is None else {"code": error.code, "message": error.message}
            named = {"kind": "answer", "id": call_id, "number": number}
            return {**named, "answers": write_questions_or_answers(answers), "error": said, "later": later}
        case HubRequest(request_id, method, params):
            return {"kind": "request", "id": request_id, "method": method, "params": params}


def read_either(wire: bytes) -> JsonObject:
    return read_server(wire) if b'"response"' in wire else read_hall(wire)


def read_server(wire: bytes) -> JsonObject:
    """What a hall makes of a message."""
    match read_tool_server_message(wire):
        case ProgressMessage() as told:
            return {"kind": "progress", **fields(told)}
        case LogMessage() as told:
            return {"kind": "log", **fields(told)}
        case ChangedMessage() as told:
            return {"kind": "changed", **fields(told)}
        case QuestionMessage(call_id, number, questions, retry_ms):
            named = {"kind": "question", "id": call_id, "number": number}
            return {**named, "questions": write_questions_or_answers(questions), "retry_ms": retry_ms}
        case ResponseMessage(request_id, result, error):
            said = None if error is None else fields(error)
            return {"kind": "response", "id": request_id, "result": result, "error": said}
        case ToolResponseMessage() as end:
            return read_end(end)


def read_end(end: ToolResponseMessage) -> JsonObject:
    if end.error is not None:
        code = end.error.code
        counts = code if code in COUNTS_AS else "TOOL_ERROR"
        assert isinstance(read_tool_server_error(end.error), COUNTS_AS[counts])
        said = {"code": code, "counts_as": counts, "message": end.error.message, "details": end.error.details or {}}
        return {"kind": "failure", "id": end.id or None, **said}
    value = result_or_raise(end)
    named: JsonObject = {"kind": "end", "id": end.id}
    if end.nothing:
        assert value is None
        return {**named, "nothing": True}
    if not isinstance(value, Reply):
        return {**named, "value": value}
    if value.value is not msgspec.UNSET:
        named["value"] = value.value
    if value.content:
        named["content"] = [write_block(block) for block in value.content]
    if end.roles:
        assert [each.role for each in messages_or_raise(end)] == [*end.roles]
        named["roles"] = end.roles
    return {**named, **({"meta": value.meta} if value.meta else {}), **({"is_error": True} if value.is_error else {})}


def read_declaration(wire: bytes) -> JsonObject:
    tools = catalog.read(json.loads(wire))
    first = tools[0]
    named = {"name": first.id.toolkit, "version": first.id.version}
    about = {"title": first.about.title, "description": first.about.description, "resources": first.about.resources}
    return {**named, **about, "tools": [declared(tool) for tool in tools]}


def declared(tool: Tool) -> JsonObject:
    own, output = published_name(tool.id.toolkit, tool.id.tool), tool.output
    stated = None if tool.effect and tool.annotations == IMPLIED[tool.effect] else tool.annotations
    hints = stated and {name: getattr(stated, ours) for name, ours in HINTS.items()}
    same = ("title", "description", "input", "effect", "level", "timeout", "tags", "requirements", "meta")
    return {
        **{name: getattr(tool, name) for name in same},
        "name": tool.id.tool,
        "published": None if tool.name == own else tool.name,
        "output": {"kind": output.kind, **({"schema": output.schema} if output.kind == "schema" else {})},
        "annotations": hints,
        "resource": tool.resource,
        "prompt": tool.prompt,
    }


READERS: dict[str, Callable[[bytes], JsonObject]] = {
    "calls": read_hall,
    "answers": read_hall,
    "core": read_either,
    "reports": read_server,
    "responses": read_server,
    "errors": read_server,
    "declarations": read_declaration,
}


# --- writing ----------------------------------------------------------------------------------------------------------


def written_call(meant: JsonObject) -> bytes:
    context = msgspec.convert(meant["context"], CallContext)
    call = remote_call(meant["id"], (meant["tool"], meant["method"], meant["version"]), meant["params"], context)
    kind = {} if meant["of"] == "tool" else {"kind": meant["of"]}
    return write_call(msgspec.structs.replace(call, **kind, uri=meant["uri"], complete=meant["complete"]))


def written_answer(meant: JsonObject) -> bytes:
    error = meant["error"] and ErrorPayload(**meant["error"])
    return write_answer(meant["id"], meant["number"], read_answers(meant["answers"]), error, later=meant["later"])


def written_core(meant: JsonObject) -> bytes:
    if meant["kind"] == "request":
        return write_request(meant["id"], meant["method"], meant["params"])
    return write_response(HubRequest(meant["id"], "", {}), meant["result"]).body


def written_report(meant: JsonObject) -> bytes:
    match meant:
        case {"kind": "progress", "id": call_id, "progress": done, "total": total, "message": message}:
            return write_progress(call_id, done, total, message)
        case {"kind": "log", "id": call_id, "level": level, "data": data, "logger": logger}:
            return write_log(call_id, level, data, logger)
        case {"kind": "changed", "id": call_id, "uri": uri}:
            return write_changed(call_id, uri)
        case _:
            return write_question(meant["id"], meant["number"], read_questions(meant["questions"]), meant["retry_ms"])


def written_end(meant: JsonObject) -> bytes:
    if "meta" not in meant and "content" not in meant:
        return write_result(meant["id"], meant.get("value")).body
    if "roles" in meant:
        return write_contents(meant["id"], Result(None, read_blocks(meant["content"]), roles=meant["roles"])).body
    blocks, value = read_blocks(meant.get("content", [])), meant.get("value", msgspec.UNSET)
    reply = Reply(blocks, value, meant.get("meta"), meant.get("is_error", False))
    return write_result(meant["id"], reply).body


def written_failure(meant: JsonObject) -> bytes:
    details = meant["details"]
    return write_failure(meant["id"], made_error(meant, details), details["tool"], details["method"]).body


def made_error(meant: JsonObject, details: JsonObject) -> errors.ToolhallError:
    code, message = meant["code"], meant["message"]
    if code == "TOOL_ERROR":
        advice = {name: details[name] for name in ("retry_after", "can_retry", "prompt") if name in details}
        return errors.ToolFailed(message, **advice)
    return MADE[code](details) if code in MADE else errors.ToolError(message, code=code)


MADE: dict[str, Callable[[JsonObject], errors.ToolhallError]] = {
    "INVALID_PARAMS": lambda details: errors.BadArguments([errors.Problem(**each) for each in details["problems"]]),
    "METHOD_NOT_FOUND": lambda _: NoSuchMethod(),
    "TOOL_NOT_FOUND": lambda _: errors.NotFound(),
    "UNSUPPORTED": lambda details: errors.Unsupported(details["feature"]),
    "RATE_LIMITED": lambda details: errors.Limited(details["retry_after"]),
    "TIMEOUT": lambda _: errors.TimedOut(),
    "CANCELLED": lambda _: errors.Cancelled(),
    "INTERNAL_ERROR": lambda _: errors.Crashed("what the exception said"),
    "UNAVAILABLE": lambda _: NotStarted(),
}


def written_declaration(meant: JsonObject) -> bytes:
    about = ToolkitInfo(title=meant["title"], description=meant["description"], resources=meant["resources"])
    tools = tuple(made_tool(meant, each, about) for each in meant["tools"])
    return json.dumps(msgspec.to_builtins(write_declaration(tools))).encode()


def made_tool(toolkit: JsonObject, meant: JsonObject, about: ToolkitInfo) -> Tool:
    hints = meant["annotations"]
    same = ("title", "description", "input", "effect", "level", "timeout", "requirements", "meta")
    return Tool(
        **{name: meant[name] for name in same},
        id=ToolId(toolkit["name"], meant["name"], toolkit["version"]),
        name=meant["published"] or published_name(toolkit["name"], meant["name"]),
        output=Output(**meant["output"]),
        tags=tuple(meant["tags"]),
        annotations=Annotations(**{HINTS[name]: value for name, value in hints.items()})
        if hints
        else IMPLIED.get(meant["effect"])
        if meant["resource"] is meant["prompt"] is None
        else None,
        about=about,
        resource=meant["resource"] and msgspec.convert(meant["resource"], ResourceInfo),
        prompt=None if meant["prompt"] is None else msgspec.convert(meant["prompt"], PromptInfo),
    )


WRITERS: dict[str, Callable[[JsonObject], bytes]] = {
    "calls": written_call,
    "answers": written_answer,
    "core": written_core,
    "reports": written_report,
    "responses": written_end,
    "errors": written_failure,
    "declarations": written_declaration,
}


# --- plain JSON -------------------------------------------------------------------------------------------------------


def fields(struct: msgspec.Struct) -> JsonObject:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return fields(value)
    return {key: plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def brief(value: Json) -> Json:
    """Without what says nothing: a writer may leave it out, or say that it is not there."""
    if isinstance(value, dict):
        told = {key: brief(each) for key, each in value.items()}
        return {key: each for key, each in told.items() if each not in (None, [], {})}
    return [brief(each) for each in value] if isinstance(value, list) else value


def exact(value: Json) -> str:
    """JSON tells 1 from true, where Python does not; 1 and 1.0 are one number."""
    return json.dumps(whole(msgspec.to_builtins(value)), sort_keys=True)


def whole(value: Json) -> Json:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: whole(each) for key, each in value.items()}
        case list() | tuple():
            return [whole(each) for each in value]
        case _:
            return value
