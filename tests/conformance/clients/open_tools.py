"""Takes the published OXP client through a served kit, sync and async, and prints what came of it as one JSON object.

Run it with the Python of `.venv-clients`: open_tools.py sync|async URL.
"""

import asyncio
import inspect
import json
import sys
import traceback
import uuid
from collections.abc import Callable
from typing import Any

import oxp

SCHEMA = "urn:oxp:1.0"


async def settled(value: Any) -> Any:
    """What the client returned, also where it has to be waited for."""
    return await value if inspect.isawaitable(value) else value


async def refusal(kind: type[oxp.APIStatusError], ask: Callable[[], Any]) -> Any:
    """The body of what is refused in this way."""
    try:
        await settled(ask())
    except kind as error:
        return error.body
    raise AssertionError("it was not refused")


class Driver:
    """One client, and the checks; each returns normally or raises."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def call(self, tool_id: str, given: dict[str, Any], **more: Any) -> Any:
        """The result of a call."""
        request = {"tool_id": tool_id, "input": given, **more}
        return (await settled(self.client.tools.call(request=request, schema=SCHEMA))).result

    async def refused(self, kind: type[oxp.APIStatusError], tool_id: str, given: dict[str, Any], **more: Any) -> Any:
        """The body of a call that is refused."""
        return await refusal(kind, lambda: self.call(tool_id, given, **more))

    async def check_health(self) -> None:
        """The server is ready."""
        await settled(self.client.health.check())

    async def check_list(self) -> None:
        """Every definition has what the client's model needs."""
        listed = await settled(self.client.tools.list())
        tools = {tool.id: tool for tool in listed.items}
        assert listed.schema_ == SCHEMA
        add = tools["Calculator.Add@1.0.0"]
        assert (add.name, add.version) == ("Calculator_Add", "1.0.0")
        assert add.input_schema["parameters"]["required"] == ["a", "b"]
        assert tools["Doorbell.Ring@0.1.0"].output_schema is None

    async def check_good_call(self) -> None:
        """A value."""
        result = await self.call("Calculator.Add@1.0.0", {"a": 1, "b": 2}, trace_id="trace-1")
        assert (result.success, result.value) == (True, 3)
        assert result.call_id
        assert result.duration >= 0
        assert (await self.call("Doorbell.Ring", {"doorbell_id": "front"})).success is True
        assert "timestamp" in (await self.call("System.GetTimestamp", {})).value

    async def check_failing_call(self) -> None:
        """The tool's own words, in a result."""
        result = await self.call("Probe.fails", {"why": "the shop is closed"})
        assert (result.success, result.error.message, result.error.can_retry) == (False, "the shop is closed", False)

    async def check_unknown_tool(self) -> None:
        """400, with a message."""
        body = await self.refused(oxp.BadRequestError, "Calculator.Divide", {})
        assert "Calculator.Divide" in body["message"]

    async def check_bad_input(self) -> None:
        """422, and the parameters are named."""
        body = await self.refused(oxp.UnprocessableEntityError, "Calculator.Add", {"a": "x"})
        assert body["parameter_errors"].keys() == {"a", "b"}

    async def check_versions(self) -> None:
        """Exact, by a bare number, and the newest."""
        for version in ("", "@1", "@1.0.0"):
            assert (await self.call(f"Calculator.Add{version}", {"a": 1, "b": 2})).value == 3
        for version in ("@1.0", "@2", "@1.0.1"):
            await self.refused(oxp.BadRequestError, f"Calculator.Add{version}", {"a": 1, "b": 2})

    async def check_idempotent(self) -> None:
        """The same call under one id has one effect; another is refused."""
        note, call_id = str(uuid.uuid4()), str(uuid.uuid4())
        first, again = [await self.call("Probe.count", {"note": note}, call_id=call_id) for _ in range(2)]
        assert first == again
        assert (first.value, first.call_id) == (1, call_id)
        await self.refused(oxp.BadRequestError, "Probe.count", {"note": "other"}, call_id=call_id)

    async def check_retries(self) -> None:
        """Too many calls and what cannot be reached are what the client knows them as."""
        hasty = Driver(self.client.with_options(max_retries=0))
        await hasty.refused(oxp.RateLimitError, "Probe.ends", {"kind": "Limited"})
        await hasty.refused(oxp.InternalServerError, "Probe.ends", {"kind": "Unavailable"})
        await hasty.refused(oxp.AuthenticationError, "Probe.ends", {"kind": "Unauthenticated"})
        await hasty.refused(oxp.PermissionDeniedError, "Probe.ends", {"kind": "Denied"})

    async def check_version_of_oxp(self) -> None:
        """One that is not spoken is refused, for calls and for lists."""
        tools, other = self.client.tools, "urn:oxp:9.0"
        request = {"tool_id": "Calculator.Add", "input": {"a": 1, "b": 2}}
        called = await refusal(oxp.BadRequestError, lambda: tools.call(request=request, schema=other))
        listed = await refusal(oxp.BadRequestError, lambda: tools.list(extra_body={"$schema": other}))
        assert SCHEMA in called["message"]
        assert SCHEMA in listed["message"]


async def outcome(way: str, url: str) -> dict[str, str | None]:
    """What every check came to: None, or what went wrong."""
    kind = oxp.AsyncOxp if way == "async" else oxp.Oxp
    driver = Driver(kind(bearer_token="no credential is needed here", base_url=url))
    checks: dict[str, str | None] = {}
    for name in [name for name in dir(driver) if name.startswith("check_")]:
        try:
            await getattr(driver, name)()
            checks[name.removeprefix("check_")] = None
        except Exception:  # noqa: BLE001 - whatever it is, the test shows it
            checks[name.removeprefix("check_")] = traceback.format_exc()
    await settled(driver.client.close())
    return checks


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(outcome(*sys.argv[1:]))) + "\n")
