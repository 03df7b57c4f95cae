"""An MCP server over standard input and output, in the standard library alone: `stdio_mcp.py REVISION [QUIRK ...]`.

REVISION is one that it speaks alone, or `both` for 2025-11-25 and 2026-07-28. Quirks: `mute` says nothing to methods
that it does not know, `slow` waits before it reads, `greets` prints text first, `backwards` answers discovery late.
"""

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MODERN = "2026-07-28"
_lock = threading.Lock()
_replies: dict[Any, "list[Any]"] = {}
_asked = itertools.count(1)
_cancelled: set[Any] = set()
_calls = itertools.count(1)


def write(message: dict[str, Any]) -> None:
    with _lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def fail(request_id: Any, code: int, text: str, data: Any = None) -> None:
    write({"id": request_id, "error": {"code": code, "message": text, "data": data}})


def ask() -> Any:
    """Ask the person for a name, and wait for the reply."""
    number, arrived = f"q{next(_asked)}", threading.Event()
    _replies[number] = [arrived]
    write({"id": number, "method": "elicitation/create", "params": QUESTION})
    arrived.wait(30)
    return _replies[number][1]


def call(request: dict[str, Any], *, modern: bool) -> None:
    """Run a tool and write its result."""
    name = request["params"]["name"]
    result = greet(request, modern=modern) if name == "greet" else TOOLS[name](request) if name in TOOLS else None
    if name not in TOOLS:
        fail(request["id"], -32602, f"unknown tool {name}")
    elif result is not None:
        body = {"content": [{"type": "text", "text": result}], "structuredContent": {"result": result}}
        write({"id": request["id"], "result": {**body, "resultType": "complete"} if modern else body})


def work(request: dict[str, Any]) -> str:
    token = request["params"]["_meta"]["progressToken"]
    for done in range(3):
        progress = {"progressToken": token, "progress": done, "total": 3, "message": f"step {done}"}
        write({"method": "notifications/progress", "params": progress})
    log("worked")
    return ""


def wait(request: dict[str, Any]) -> None:
    while request["id"] not in _cancelled:
        time.sleep(0.01)
    log("cancelled")


def greet(request: dict[str, Any], *, modern: bool) -> str | None:
    params = request["params"]
    if not modern:
        return str(ask()["result"]["content"]["name"])
    if "inputResponses" in params:
        assert params["requestState"] == "s1"
        return str(params["inputResponses"]["who"]["content"]["name"])
    questions = {"who": {"method": "elicitation/create", "params": QUESTION}}
    result = {"resultType": "input_required", "inputRequests": questions, "requestState": "s1"}
    write({"id": request["id"], "result": result})
    return None


def change(request: dict[str, Any]) -> str:
    write({"method": "notifications/tools/list_changed"})
    return ""


def leave(request: dict[str, Any]) -> None:
    sys.stderr.write("out of cheese\n")
    sys.stderr.flush()
    os._exit(3)


def refuse(request: dict[str, Any]) -> None:
    write({"id": request["id"], "result": {"content": [{"type": "text", "text": "no such city"}], "isError": True}})


def log(text: str) -> None:
    write({"method": "notifications/message", "params": {"level": "info", "data": text}})


QUESTION = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
TOOLS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "echo": lambda request: str(request["params"]["arguments"]["text"]),
    "count": lambda _: str(next(_calls)),
    "work": work,
    "wait": wait,
    "greet": lambda _: None,
    "change": change,
    "exit": leave,
    "fail": refuse,
}
SERVER = {"name": "stdio", "version": "1"}
CAPABILITIES = {"tools": {"listChanged": True}, "logging": {}}


def answer(request: dict[str, Any], revisions: tuple[str, ...], quirks: set[str]) -> None:
    meta = (request.get("params") or {}).get("_meta") or {}
    modern = meta.get("io.modelcontextprotocol/protocolVersion") == MODERN and MODERN in revisions
    legacy = [each for each in revisions if each != MODERN]
    result: dict[str, Any] = {}
    match request["method"]:
        case "server/discover" if modern:
            if "backwards" in quirks:
                time.sleep(0.2)
            info = {"io.modelcontextprotocol/serverInfo": SERVER}
            result = {"supportedVersions": list(revisions), "capabilities": CAPABILITIES, "_meta": info}
        case "initialize" if legacy:
            result = {"protocolVersion": legacy[0], "capabilities": CAPABILITIES, "serverInfo": SERVER}
            result["instructions"] = "Be kind."
        case "subscriptions/listen" if modern:
            write({"method": "notifications/subscriptions/acknowledged", "params": {}})
            return
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            half = len(tools) // 2
            is_second = request["params"].get("cursor") == "2"
            result = {"tools": tools[half:]} if is_second else {"tools": tools[:half], "nextCursor": "2"}
        case "tools/call":
            threading.Thread(target=call, args=(request,), kwargs={"modern": modern}, daemon=True).start()
            return
        case _ if "mute" in quirks:
            return
        case _:
            fail(request["id"], -32601, "method not found")
            return
    write({"id": request["id"], "result": {**result, "resultType": "complete"} if modern else result})


def main() -> None:
    revisions = ("2025-11-25", MODERN) if sys.argv[1] == "both" else (sys.argv[1],)
    quirks = set(sys.argv[2:])
    if "greets" in quirks:
        sys.stdout.write("Welcome to the server!\n")
        sys.stdout.flush()
    if "slow" in quirks:
        time.sleep(0.6)
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            waiting = _replies[message["id"]]
            waiting.append(message)
            waiting[0].set()
        elif "id" in message:
            answer(message, revisions, quirks)
        elif message["method"] == "notifications/cancelled":
            _cancelled.add(message["params"]["requestId"])


if __name__ == "__main__":
    main()
