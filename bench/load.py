"""Load: as many calls as a server can take, by wrk, on the loopback interface and for a few seconds."""

import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import messages
from bench.client import Client
from bench.targets import Server

CONNECTIONS = 32

_SCRIPT = """
wrk.method = "POST"
%(headers)s
local count, threads = 0, {}
wrong = 0
function request()
  count = count + 1
  return wrk.format(nil, nil, nil, string.format([==[%(body)s]==], count, count))
end
function response(status, headers, body)
  if status ~= 200 or not body:find('%(good)s', 1, true) then wrong = wrong + 1 end
end
function setup(thread) threads[#threads + 1] = thread end
function done(summary)
  local bad = 0
  for _, thread in ipairs(threads) do bad = bad + thread:get("wrong") end
  local errors = summary.errors
  io.write(string.format('SUMMARY {"calls": %%d, "bad": %%d, "microseconds": %%d}\\n', summary.requests,
    bad + errors.connect + errors.read + errors.write + errors.status + errors.timeout, summary.duration))
end
"""


class Load(NamedTuple):
    """What one burst of load came to."""

    cpu_us: float  # of the server, per call
    per_second: float


def saturate(server: Server, seconds: int, call: messages.Spoken | None = None) -> Load:
    """Call the tool over 32 connections at once, by default in the newest revision of MCP."""
    call = call or messages.mcp_call()
    with tempfile.NamedTemporaryFile("w", prefix="toolhall-bench-", suffix=".lua") as script:
        script.write(_script(call))
        script.flush()
        before = server.process.cpu()
        summary = _run(Path(script.name), f"http://127.0.0.1:{server.port}{call.path}", seconds)
        cpu = server.process.cpu() - before
    if summary["bad"] or not summary["calls"]:
        raise RuntimeError(f"{server.process.name}: {summary['bad']} of {summary['calls']} calls went wrong")
    return Load(cpu / summary["calls"] * 1e6, summary["calls"] / summary["microseconds"] * 1e6)


def one_by_one(server: Server, bodies: list[bytes], method: str, seconds: float, name: str | None = None) -> Load:
    """The same few requests in turn, over one connection, for at least so long and at least once each."""
    headers, count = messages.headers(method) | ({} if name is None else {"mcp-name": name}), 0
    with Client(server.port) as client:
        before, start = server.process.cpu(), time.monotonic()
        while count == 0 or time.monotonic() < start + seconds:
            for body in bodies:
                client.post(body, headers)
            count += 1
        elapsed, cpu = time.monotonic() - start, server.process.cpu() - before
    return Load(cpu / count * 1e6, count / elapsed)


def _script(call: messages.Spoken) -> str:
    pairs = call.headers.items()
    headers = "\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in pairs)
    return _SCRIPT % {"headers": headers, "body": call.body, "good": call.good}


def _run(script: Path, url: str, seconds: int) -> dict[str, int]:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "20s", "-s", str(script)]
    run = subprocess.run([*command, url], capture_output=True, text=True, timeout=seconds + 60, check=False)
    found = re.search(r"SUMMARY (.*)", run.stdout)
    if not found:
        raise RuntimeError(f"wrk failed: {run.stdout}{run.stderr}")
    summary: dict[str, int] = json.loads(found[1])
    return summary
