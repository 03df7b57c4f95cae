"""Overload: how many requests are answered and refused, and what a refusal costs."""

import json
import re
import subprocess
import tempfile
from typing import NamedTuple

from bench import messages
from bench.launch import Server

_SCRIPT = """
wrk.method = "POST"
%(headers)s
local count, threads = 0, {}
good, refused, wrong = 0, 0, 0
function request()
  count = count + 1
  return wrk.format(nil, nil, nil, string.format([==[%(body)s]==], count, count))
end
function response(status, headers, body)
  if status == 200 and body:find('%(good)s', 1, true) then good = good + 1
  elseif status == 503 and headers["retry-after"] then refused = refused + 1
  else wrong = wrong + 1 end
end
function setup(thread) threads[#threads + 1] = thread end
function done(summary)
  local seen = {good = 0, refused = 0, wrong = 0}
  for _, thread in ipairs(threads) do
    for name in pairs(seen) do seen[name] = seen[name] + thread:get(name) end
  end
  local errors = summary.errors
  io.write(string.format('SUMMARY {"good": %%d, "refused": %%d, "wrong": %%d, "microseconds": %%d}\\n', seen.good,
    seen.refused, seen.wrong + errors.connect + errors.read + errors.write + errors.timeout, summary.duration))
end
"""


class Storm(NamedTuple):
    """What one burst came to."""

    good: float  # a second
    refused: float  # a second
    cpu: float  # seconds of the server's, a second
    rss: float  # megabytes afterwards


def anonymous(headers: dict[str, str]) -> dict[str, str]:
    """The headers of the local caller, without a credential."""
    return {name: value for name, value in headers.items() if name != "authorization"}


def storm(server: Server, seconds: int, connections: int) -> Storm:
    """A closed loop over so many connections; a refused client retries at once, although it was asked to wait."""
    call = messages.mcp_call()
    pairs = anonymous(call.headers).items()
    headers = "\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in pairs)
    with tempfile.NamedTemporaryFile("w", prefix="toolhall-bench-", suffix=".lua") as script:
        script.write(_SCRIPT % {"headers": headers, "body": call.body, "good": call.good})
        script.flush()
        before = server.process.cpu()
        url = f"http://127.0.0.1:{server.port}{call.path}"
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", script.name, url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
        cpu = server.process.cpu().since(before).total
    found = re.search(r"SUMMARY (.*)", run.stdout)
    if not found:
        raise RuntimeError(f"wrk failed: {run.stdout}{run.stderr}")
    seen: dict[str, int] = json.loads(found[1])
    if seen["wrong"] or not seen["good"]:
        raise RuntimeError(f"{server.process.name}: {seen}")
    took = seen["microseconds"] / 1e6
    return Storm(seen["good"] / took, seen["refused"] / took, cpu / took, server.process.memory().rss)
