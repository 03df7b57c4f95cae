"""The runner of these tests: a command that it runs in this process finds a fresh one, and leaves nothing behind."""

import asyncio
import logging
import os
import resource
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import KIT, CliRunner
from toolhall.redaction import log_redaction

LITTERING = """
import logging, os, signal, sys, threading, warnings
from toolhall import tool
import beside

os.environ["LITTER"] = "left"
os.umask(0o077)
sys.path.append("/litter")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.excepthook = threading.excepthook = sys.unraisablehook = warnings.showwarning = print
warnings.simplefilter("ignore")
logging.getLogger("litter").setLevel("DEBUG")
logging.getLogger("toolhall").addHandler(logging.StreamHandler())
logging.getLogger().addHandler(logging.StreamHandler())
logging.disable(logging.CRITICAL)
logging.setLogRecordFactory(dict)

@tool(effect="reads")
def look() -> str:
    return beside.WORD
"""


def state() -> dict[str, Any]:
    loggers = [logging.getLogger(), logging.getLogger("toolhall"), logging.getLogger("litter")]
    mask = os.umask(0o022)
    os.umask(mask)
    return {
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "umask": mask,
        "path": [*sys.path],
        "words": [*sys.argv],
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "descriptors": {number: os.fstat(number).st_ino for number in range(3)},
        "open": len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0,  # noqa: PTH208
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning),
        "filters": [*warnings.filters],
        "loggers": [(each.level, [*each.handlers], each.propagate) for each in loggers],
        "logging": (logging.root.manager.disable, logging.getLogRecordFactory()),
        "limits": resource.getrlimit(resource.RLIMIT_CORE),
        "secrets": log_redaction.SECRETS_IN_USE,
        "exit": os._exit,
        "modules": {name for name in sys.modules if name in ("litter", "beside")},
    }


def write_litter(cli: CliRunner, word: str) -> None:
    (cli.folder / "litter.py").write_text(LITTERING)
    (cli.folder / "beside.py").write_text(f"WORD = {word!r}\n")


def test_runner_after_a_command_that_litters_has_changed_nothing(cli: CliRunner) -> None:
    write_litter(cli, "first")
    cli.run("list", KIT)  # what it imports of the program stays
    before = state()
    assert cli.run("call", "look", "litter.py").out == "first\n"
    assert state() == before


def test_runner_after_a_refused_server_has_changed_nothing(cli: CliRunner) -> None:
    before = state()
    assert cli.run("serve", "--host", "0.0.0.0").code == 78
    assert state() == before
    if sys.platform == "linux":
        assert os.access("/proc/self/environ", os.R_OK)
        assert Path("/proc/self/mem").stat().st_uid == os.getuid(), "what is not dumpable belongs to root"


def test_runner_of_a_file_that_changed_imports_it_anew(cli: CliRunner) -> None:
    for word in ("first", "other"):
        write_litter(cli, word)
        assert cli.run("call", "look", "litter.py").out == f"{word}\n"


def test_runner_with_input_larger_than_a_pipe_passes_all_of_it(cli: CliRunner) -> None:
    line = '{"name": "a", "parameters": {"type": "object"}, "description": "%s"}\n'
    done = cli.run("convert", "-", "--to", "function", text=line % ("x" * 100_000) * 3)
    assert (done.code, done.out.count("x" * 100_000)) == (0, 3)


async def test_runner_in_an_asynchronous_test_runs_commands_that_have_loops(cli: CliRunner) -> None:
    here = asyncio.get_running_loop()
    assert cli.run("call", "echo", "text=a", KIT, "--json").json()["structuredContent"]["text"] == "a"
    assert asyncio.get_running_loop() is here


def test_runner_of_a_command_that_ends_its_process_refuses(cli: CliRunner) -> None:
    stopped = threading.Event()
    (cli.folder / "lingering.py").write_text(
        "import threading, builtins\nfrom toolhall import tool\n\n"
        "threading.Thread(target=builtins.stopped.wait).start()\n\n@tool\ndef look() -> None: ...\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.stopped", stopped, raising=False)
        with pytest.raises(AssertionError, match="run it in a process of its own"):
            cli.run("list", "lingering.py")
    stopped.set()


def test_runner_in_another_thread_refuses(cli: CliRunner) -> None:
    refused: list[str] = []

    def run() -> None:
        try:
            cli.run("--version")
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert refused == ["a command in process needs the main thread; run it in a process of its own"]
