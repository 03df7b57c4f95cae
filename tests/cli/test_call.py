"""`toolhall call` in process: arguments, questions, results, the log of calls."""

import json
import signal

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.http_client import request_url
from tests.harness.processes import read_line
from tests.recorded import recorded
from toolhall import Context, tool
from toolhall.cli.logs import print_crashes
from toolhall.model.errors import Crashed
from toolhall.testing import Client


def test_call_of_a_reading_tool_shows_inputs_and_prints_the_result(cli: CliRunner) -> None:
    done = cli.run("call", "get_weather", "location=Oslo")
    assert done.code == 0
    assert done.out.startswith("Current weather in Oslo:")
    assert '  location = "Oslo"' in done.err


def test_call_arguments_as_words_are_read_by_their_schema(cli: CliRunner) -> None:
    words = ["text=12", "number=1e2", "count=null", 'tags=["a"]', "loud=true"]
    done = cli.run("call", "echo", *words, KIT, "--json")
    read = {"text": "12", "number": 100.0, "count": None, "tags": ["a"], "loud": True}
    assert done.json()["structuredContent"] == read


def test_call_arguments_as_one_document_are_merged_with_words(cli: CliRunner) -> None:
    done = cli.run("call", "echo", "--args", '{"text": "a", "count": 1}', "count:=2", "-t", KIT, "--json")
    assert done.json()["structuredContent"]["text"] == "a"
    assert done.json()["structuredContent"]["count"] == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["echo", "txt=1"], 2, "did you mean 'text'?"),
        (["echo", "text=1", "text=2"], 2, "given twice"),
        (["echo", "count=many"], 1, "/count"),
        (["echo", "--args", "[1]"], 2, "--args must be a JSON object"),
        (["echo", "text:=nope"], 2, "is not JSON"),
        (["ecko"], 1, "did you mean 'echo'?"),
        (["Shop_sell", "what=hat"], 1, "add --yes"),
        (["unsaid"], 1, "add --yes"),
        (["Shop_burn", "what=hat", "--yes", "--json"], 1, "level 9 needs a person's yes: call it in a terminal"),
        (["wait", "--timeout", "0.2", "--json"], 1, "no answer within 0.2 seconds"),
        (["hang", "--timeout", "0.2", "--json"], 1, "no answer within 0.2 seconds"),
    ],
)
def test_call_that_is_refused_or_fails_prints_one_line_with_its_exit_code(
    cli: CliRunner, words: list[str], code: int, said: str
) -> None:
    run = cli.run_process if "hang" in words else cli.run  # a thread that hangs ends with its process only
    done = run("call", *words, "--target", KIT)
    complaint = done.err.replace("printed while the module is imported\n", "")
    assert done.code == code
    assert said in complaint
    assert complaint.count("\n") == 1


FORMS = """
import datetime
from toolhall import tool

@tool(effect="writes")
def book(day: datetime.date, nights: int) -> None:
    \"""Book a room.\"""
"""


def test_call_with_several_bad_arguments_names_them_all_before_asking(cli: CliRunner) -> None:
    (cli.folder / "forms.py").write_text(FORMS)
    done = cli.run("call", "book", "day=soon", "nights:=1.5", "forms.py")
    assert done.code == 1
    assert "/nights: " in done.error_line()
    assert "/day: Invalid RFC3339 encoded date" in done.error_line()


def test_call_of_a_crashing_tool_prints_its_traceback(cli: CliRunner) -> None:
    done = cli.run("call", "crash", "--json", "--target", KIT)
    assert done.code == 1
    assert f'Traceback (most recent call last):\n  File "{KIT}", line' in done.err
    assert done.err.endswith("RuntimeError: canary-5f1c\ntoolhall: the tool failed; its traceback is above\n")
    assert "canary-5f1c" not in done.out


def test_call_of_a_crashing_tool_in_server_profile_logs_the_traceback_on_demand(cli: CliRunner) -> None:
    cli.environment["TOOLHALL_PROFILE"] = "server"
    done = cli.run("call", "crash", KIT)
    assert "TOOLHALL_LOG_LEVEL=error" in done.err
    assert "canary-5f1c" not in done.err
    cli.environment["TOOLHALL_LOG_LEVEL"] = "error"
    assert cli.run("call", "crash", KIT).err.count("canary-5f1c") == 2  # the line that raises it, and what it says


def test_serve_at_terminal_when_a_tool_crashes_prints_its_traceback(cli: CliRunner) -> None:
    with cli.terminal("serve", KIT, "--port", "0", "--json", json=True) as terminal:
        url = json.loads(read_line(terminal.process))["url"]
        assert b"canary-5f1c" not in request_url(f"{url}/tools/kit/crash", {}).body
        shown = terminal.expect("RuntimeError: canary-5f1c")
    assert "Traceback (most recent call last)" in shown
    assert f'File "{KIT}"' in shown


async def test_call_of_a_crashing_tool_prints_its_traceback_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    @tool(secrets=["KEY"])
    async def leak(ctx: Context) -> None:
        raise RuntimeError(f"it is {ctx.secret('KEY')}")

    async with Client(leak, supplies={"KEY": "hunter2-hunter2"}) as client:
        with print_crashes() as shown, pytest.raises(Crashed):
            await client.call_named("leak", {})
    assert len(shown) == 1
    assert "RuntimeError: it is" in (err := capsys.readouterr().err)
    assert "hunter2" not in err


def test_call_with_yes_does_not_ask(cli: CliRunner) -> None:
    done = cli.run("call", "Shop.sell@2.1.0", "what=hat", "--yes", KIT)
    assert (done.code, done.out) == (0, "sold a small hat\n")


def test_call_of_a_tool_that_reports_an_error_prints_it_and_fails(cli: CliRunner) -> None:
    done = cli.run("call", "get_weather", "location=Atlantis", "--json")
    assert done.code == 1
    assert done.json()["isError"] is True
    assert "try Berlin" in done.error_line()


def test_call_of_a_tool_that_asks_without_terminal_declines(cli: CliRunner) -> None:
    done = cli.run("call", "invite", KIT, "--json")
    assert done.json()["content"] == [{"type": "text", "text": "decline"}]


def test_call_of_a_tool_that_logs_prints_the_log_to_stderr(cli: CliRunner) -> None:
    done = cli.run("call", "chatter", KIT, "--json")
    assert done.json()["content"][0]["text"] == "done"
    assert "info: line 3" in done.err
    assert "printed while the tool runs" in done.err


def test_call_result_with_control_characters_prints_them_visibly(cli: CliRunner) -> None:
    assert cli.run("call", "ugly", KIT).out == "ab\n"


def test_call_log_of_every_call_holds_no_values(cli: CliRunner) -> None:
    cli.run("call", "Shop_sell", "what=canary-7b", "--yes", KIT)
    cli.run("call", "get_weather", "location=canary-7b")
    log = (cli.data / "calls.jsonl").read_text()
    sold, asked = (json.loads(line) for line in log.splitlines())
    assert (sold["where"], sold["tool"], sold["outcome"]) == (KIT, "Shop.sell@2.1.0", "ok")
    assert (asked["where"], asked["outcome"]) == ("toolhall.examples", "tool_error")
    assert sold["duration_us"] > 0
    assert len(sold["arguments_sha256"]) == 64
    assert "canary-7b" not in log + str(recorded(cli.data))
    assert (cli.data / "calls.jsonl").stat().st_mode & 0o77 == 0


def test_call_of_a_writing_tool_at_terminal_asks_first(cli: CliRunner) -> None:
    with cli.terminal("call", "Shop_sell", "what=h\u200bat", KIT) as terminal:
        shown = terminal.expect("Run it? [y/N] ")
        assert 'what = "h<U+200B>at"' in shown
        terminal.type("y")
        code, rest = terminal.end()
    assert code == 0
    assert "sold a small" in rest


@pytest.mark.parametrize("typed", ["n", "", "yes please"])
def test_call_at_terminal_answered_with_anything_but_yes_is_not_run(cli: CliRunner, typed: str) -> None:
    with cli.terminal("call", "Shop_sell", "what=hat", KIT) as terminal:
        terminal.expect("Run it? [y/N] ")
        terminal.type(typed)
        code, rest = terminal.end()
    assert code == 1
    assert "you did not say yes" in rest
    assert not (cli.data / "calls.jsonl").exists()


def test_call_of_a_high_level_tool_with_yes_still_asks(cli: CliRunner) -> None:
    with cli.terminal("call", "Shop_burn", "what=hat", "--yes", KIT) as terminal:
        shown = terminal.expect("Run it? [y/N] ")
        assert "Shop.burn@2.1.0" in shown
        terminal.type("y")
        code, rest = terminal.end()
    assert code == 0
    assert "burnt hat" in rest


def test_call_of_a_tool_that_asks_at_terminal_asks_field_by_field(cli: CliRunner) -> None:
    with cli.terminal("call", "invite", KIT, "--json", json=True) as terminal:
        terminal.expect("The tool asks: Who comes?")
        terminal.expect("name: ")
        terminal.type("Ada")
        terminal.expect("age: ")
        terminal.type("old")
        terminal.expect("age: ")
        terminal.type("36")
        terminal.expect("vegetarian")
        terminal.type("yes")
        assert terminal.process.stdout is not None
        result = json.loads(terminal.process.stdout.read())
        code, _ = terminal.end()
    assert code == 0
    assert result["content"] == [{"type": "text", "text": "Ada (36, True)"}]


def test_call_with_progress_at_terminal_draws_a_bar(cli: CliRunner) -> None:
    with cli.terminal("call", "chatter", "pause=0.15", KIT) as terminal:
        terminal.expect("━")
        terminal.expect("step 3")
        code, rest = terminal.end()
    assert code == 0
    assert "done" in rest


def test_call_that_takes_long_at_terminal_shows_the_seconds(cli: CliRunner) -> None:
    with cli.terminal("call", "wait", "seconds=1.4", KIT) as terminal:
        terminal.expect("Calling wait (1 s)")
        code, rest = terminal.end()
    assert code == 0
    assert "waited" in rest


def test_call_interrupted_by_a_signal_is_logged_as_interrupted(cli: CliRunner) -> None:
    with cli.terminal("call", "wait", KIT) as terminal:
        terminal.expect("Calling wait (1 s)")  # so that the tool runs
        terminal.process.send_signal(signal.SIGINT)
        code, rest = terminal.end()
    assert code == 130, rest
    assert json.loads((cli.data / "calls.jsonl").read_text())["outcome"] == "interrupted"
