"""Load: as many calls as a server can take, by wrk, on the loopback interface and for a few seconds."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench import messages
from bench.client import Client
from bench.launch import Server
from bench.process import CpuTime
from bench.spread import Spread

CONNECTIONS = 32
WRK_SECONDS = 120

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
    """Figures of one burst of load."""

    cpu_us: float  # of the server, per call
    kernel_us: float  # the part of it that the kernel used
    per_second: float

    @classmethod
    def of(cls, cpu: CpuTime, calls: int, seconds: float) -> "Load":
        """So many calls that took this CPU and this long."""
        return cls(cpu.total / calls * 1e6, cpu.kernel / calls * 1e6, calls / seconds)


Loads = Mapping[str, Sequence[Load]]
COLUMNS = ("CPU µs per call", "of it kernel", "calls per second")


def cells(loads: Sequence[Load]) -> list[str]:
    """The cells below COLUMNS."""
    cpu, kernel, rate = (Spread.of(values) for values in zip(*loads, strict=True))
    return [cpu.text(1), kernel.text(1), rate.text()]


def cpu_by_name(seen: Loads) -> dict[str, list[float]]:
    """Of every lane the CPU per call, round by round."""
    return {name: [load.cpu_us for load in loads] for name, loads in seen.items()}


def figures(seen: Loads) -> dict[str, list[dict[str, float]]]:
    """Every value, for JSON."""
    return {name: [load._asdict() for load in loads] for name, loads in seen.items()}


def saturate(
    server: Server, seconds: int, call: messages.Spoken | None = None, *, connections: int = CONNECTIONS
) -> Load:
    """Call the tool over all connections at once, by default in the newest revision of MCP."""
    call = call or messages.mcp_call()
    with tempfile.NamedTemporaryFile("w", prefix="toolhall-bench-", suffix=".lua") as script:
        script.write(_script(call))
        script.flush()
        before = server.process.cpu()
        url = f"http://127.0.0.1:{server.port}{call.path}"
        summary = _run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", script.name, url])
        cpu = server.process.cpu().since(before)
    if summary["bad"] or not summary["calls"]:
        raise RuntimeError(f"{server.process.name}: {summary['bad']} of {summary['calls']} calls went wrong")
    return Load.of(cpu, summary["calls"], summary["microseconds"] / 1e6)


def one_by_one(server: Server, bodies: list[bytes], method: str, seconds: float, name: str | None = None) -> Load:
    """The same few requests in turn, over one connection, for at least so long and at least once each."""
    headers, count = messages.headers(method) | ({} if name is None else {"mcp-name": name}), 0
    with Client(server.port) as client:
        before, start = server.process.cpu(), time.monotonic()
        while count == 0 or time.monotonic() < start + seconds:
            for body in bodies:
                client.post(body, headers)
            count += 1
        elapsed, cpu = time.monotonic() - start, server.process.cpu().since(before)
    return Load.of(cpu, count, elapsed)


def _script(call: messages.Spoken) -> str:
    pairs = call.headers.items()
    headers = "\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in pairs)
    return _SCRIPT % {"headers": headers, "body": call.body, "good": call.good}


def _run(command: Sequence[str]) -> dict[str, int]:
    run = subprocess.run(command, capture_output=True, text=True, timeout=WRK_SECONDS, check=False)
    found = re.search(r"SUMMARY (.*)", run.stdout)
    if not found:
        raise RuntimeError(f"wrk failed: {run.stdout}{run.stderr}")
    summary: dict[str, int] = json.loads(found[1])
    return summary
