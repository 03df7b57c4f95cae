"""A plain MCP client over one kept-alive connection, for everything that is not load."""

import contextlib
import http.client
import json
from types import TracebackType
from typing import Any

from bench import messages


class Client:
    """One request after the other."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def post(self, body: bytes, headers: dict[str, str], path: str = "/mcp") -> tuple[bytes, str | None]:
        """The body of a good answer, and the session it opened."""
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status not in (200, 202):
            raise RuntimeError(f"HTTP {response.status}: {answer[:500].decode(errors='replace')}")
        return answer, response.getheader("mcp-session-id")

    def call(self, session: str | None = None) -> None:
        """Call the tool, and see that the sum is right."""
        answer, _ = self.post(messages.call(modern=session is None), messages.headers("tools/call", session=session))
        check_sum(answer)

    def call_in(self, call: messages.Spoken) -> None:
        """Call the tool in any dialect, and see that the sum is right."""
        answer, _ = self.post(call.numbered(7), call.headers, call.path)
        if call.good.encode() not in answer or b'"result":9.5' not in answer:
            raise RuntimeError(f"a wrong answer: {answer[:500].decode(errors='replace')}")

    def open_session(self) -> str:
        """Shake hands as 2025-11-25 does; the session's id."""
        plain = messages.headers("initialize", session="")
        del plain["mcp-session-id"], plain["mcp-protocol-version"]
        _, session = self.post(messages.request("initialize", messages.CLIENT), plain)
        if session is None:
            raise RuntimeError("initialize opened no session")
        self.post(messages.INITIALIZED, messages.headers("", session=session))
        return session

    def pages(self) -> list[tuple[bytes, int, int]]:
        """For every page of the list of tools: the request, the bytes of the answer and the tools in it."""
        pages: list[tuple[bytes, int, int]] = []
        cursor: str | None = None
        while cursor or not pages:
            body = messages.listing(cursor)
            answer, _ = self.post(body, messages.headers("tools/list"))
            result: dict[str, Any] = json.loads(answer)["result"]
            pages.append((body, len(answer), len(result["tools"])))
            cursor = result.get("nextCursor")
        return pages


def check_sum(answer: bytes) -> None:
    """Raise unless this is a good answer to `messages.call`."""
    with contextlib.suppress(ValueError, KeyError):
        if json.loads(answer)["result"]["structuredContent"] == {"result": 9.5}:
            return
    raise RuntimeError(f"a wrong answer: {answer[:500].decode(errors='replace')}")
