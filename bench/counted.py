"""Load of so many calls, all of them answered: where one takes seconds, those under way would spoil the figure."""

import json
import subprocess
import tempfile
import time

from bench import messages
from bench.launch import Server
from bench.load import CONNECTIONS, Load

PATIENCE_SECONDS = 300

# Who has made its share waits, which wrk calls a delay. wrk itself runs until it is told to stop.
_SCRIPT = """
wrk.method = "POST"
%(headers)s
local asked, good, wrong = -1, 0, 0 -- wrk makes one request only to look at it
function request()
  asked = asked + 1
  return wrk.format(nil, nil, nil, string.format([==[%(body)s]==], asked, asked))
end
function delay() return asked < %(calls)d and 0 or %(patience)d * 1000 end
function response(status, headers, body)
  if status == 200 and body:find('%(good)s', 1, true) then good = good + 1 else wrong = wrong + 1 end
  if good + wrong == asked and asked >= %(calls)d then
    io.write(string.format('SUMMARY {"good": %%d, "wrong": %%d}\\n', good, wrong))
    io.flush()
  end
end
"""


def spend(server: Server, calls: int, call: messages.Spoken) -> Load:
    """At least so many calls over 32 connections at once, and what they cost from the first to the last answer."""
    with tempfile.NamedTemporaryFile("w", prefix="toolhall-bench-", suffix=".lua") as script:
        script.write(_script(call, calls))
        script.flush()
        before, start = server.process.cpu(), time.monotonic()
        answers = _answers(script.name, f"http://127.0.0.1:{server.port}{call.path}")
        cpu, took = server.process.cpu().since(before), time.monotonic() - start
    if answers["wrong"] or answers["good"] < calls:
        raise RuntimeError(f"{server.process.name}: {answers} instead of {calls} good ones:\n{server.process.said()}")
    return Load.of(cpu, answers["good"], took)


def _script(call: messages.Spoken, calls: int) -> str:
    pairs = call.headers.items()
    headers = "\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in pairs)
    blanks = {"headers": headers, "body": call.body, "good": call.good, "calls": calls, "patience": PATIENCE_SECONDS}
    return _SCRIPT % blanks


def _answers(script: str, url: str) -> dict[str, int]:
    """How many there were; by one thread, so that one script counts them all."""
    limits = [f"-d{PATIENCE_SECONDS}s", "--timeout", f"{PATIENCE_SECONDS}s"]
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", *limits, "-s", script, url]
    said: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as wrk:
        assert wrk.stdout is not None
        try:
            for line in wrk.stdout:
                said.append(line)
                if line.startswith("SUMMARY "):
                    answers: dict[str, int] = json.loads(line.removeprefix("SUMMARY "))
                    return answers
        finally:
            wrk.kill()
    raise RuntimeError(f"not every call was answered within {PATIENCE_SECONDS} seconds: {''.join(said)}")
