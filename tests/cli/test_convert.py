"""`toolhall convert`."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import CliRunner
from tests.harness.patience import PROGRAM, patience
from tests.harness.processes import read_line
from tests.harness.seeds import count
from toolhall.dialects.catalogs import DIALECTS, READABLE_DIALECTS

VECTORS = Path(__file__).parents[1] / "vectors"
CALCULATOR = json.loads((VECTORS / "machine/calculator.json").read_text())
WEATHER = json.loads((VECTORS / "mcp/get_weather.json").read_text())
ADD = json.loads((VECTORS / "oxp/calculator_add.json").read_text())
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
BAD: dict[str, Any] = {"name": "", "inputSchema": {"type": "array"}}


def tool(number: int) -> dict[str, Any]:
    """One of many definitions."""
    price = {"type": "string", "enum": ["EUR", "USD"], "description": "The currency of the price"}
    schema = {"type": "object", "properties": {"currency": price}, "required": ["currency"]}
    return {"name": f"get_item_{number}", "description": "The price of an item", "inputSchema": schema, "title": "Item"}


def lines(*documents: Any) -> str:
    return "".join(f"{json.dumps(document)}\n" for document in documents)


def test_convert_of_one_document_prints_one_document(cli: CliRunner) -> None:
    done = cli.run("convert", "-", "--to", "mcp", text=json.dumps(ADD, indent=4))
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert document["name"] == "Calculator_Add"
    assert document["inputSchema"] == ADD["input_schema"]["parameters"]


def test_convert_of_a_toolkit_prints_a_list_and_converts_back(cli: CliRunner) -> None:
    (cli.folder / "toolkit.json").write_text(json.dumps(CALCULATOR))
    assert cli.run("convert", "toolkit.json", "--to", "mcp", "--out", "tools.json").code == 0
    tools = json.loads((cli.folder / "tools.json").read_text())
    assert len(tools) == len(CALCULATOR["capabilities"])
    done = cli.run("convert", "tools.json", "--to", "machine")
    assert json.loads(done.out) == [CALCULATOR]


@pytest.mark.parametrize("target", [name for name in DIALECTS if name not in ("openapi", "machine", "hub")])
def test_convert_of_a_list_prints_a_list(cli: CliRunner, target: str) -> None:
    given = [{**tool(number), "inputSchema": CLOSED} for number in range(3)]
    done = cli.run("convert", "-", "--to", target, text=json.dumps(given, indent=1))
    made = json.loads(done.out)
    assert done.code == 0
    assert [name in json.dumps(each) for each, name in zip(made, ("item_0", "item_1", "item_2"), strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize(
    "wrapper",
    [{"tools": 0}, {"items": 0}, {"$schema": "x", "items": 0, "tools": 0}, {"a": [1], "tools": 0, "nextCursor": "x:y"}],
)
def test_convert_of_a_wrapped_list_keeps_the_wrapper(cli: CliRunner, wrapper: dict[str, Any]) -> None:
    given = {key: [tool(0), tool(1)] if value == 0 else value for key, value in wrapper.items()}
    done = cli.run("convert", "-", "--to", "oxp", text=json.dumps(given, indent=2))
    assert done.code == 0, done
    made = json.loads(done.out)
    assert list(made) == list(wrapper), "an OXP list names its schema"
    for key, value in wrapper.items():
        if value == 0:
            assert [each["name"] for each in made[key]] == ["get_item_0", "get_item_1"]
        else:
            assert made[key] == value


def test_convert_of_a_wrapped_list_drops_what_is_untrue_of_the_target(cli: CliRunner) -> None:
    given = {"$schema": "https://example.org/list", "items": [ADD], "next": "n"}
    assert json.loads(cli.run("convert", "-", "--to", "mcp", text=json.dumps(given)).out).keys() == {"items", "next"}


def test_convert_of_a_whole_server_response_prints_its_tools(cli: CliRunner) -> None:
    given = {"jsonrpc": "2.0", "id": 7, "result": {"tools": [tool(0), tool(1)], "nextCursor": "n"}}
    there = cli.run("convert", "-", "--to", "oxp", text=json.dumps(given, indent=2))
    assert (there.code, list(json.loads(there.out))) == (0, ["jsonrpc", "id", "result"])
    assert [each["id"] for each in json.loads(there.out)["result"]["tools"]] == [
        "get_item_0.get_item_0@0.1.0",
        "get_item_1.get_item_1@0.1.0",
    ]
    assert json.loads(cli.run("convert", "-", "--to", "mcp", text=there.out).out) == given
    bad = json.dumps(given | {"result": {"tools": [tool(0), BAD]}}, indent=2)
    found = cli.run("convert", "-", "--to", "oxp", text=bad).err
    line = bad[: bad.index('"name": ""')].count("\n")
    assert f"<stdin>:{line}: document 1, /name: error: " in found


def test_convert_of_a_list_to_toolkits_converts_back(cli: CliRunner) -> None:
    listed = json.loads(cli.run("convert", "-", "--to", "mcp", text=json.dumps(CALCULATOR)).out)
    for each in listed:
        del each["_meta"]["dev.toolhall/carrier"]
    given = [listed[0], tool(0), listed[1]]
    there = json.loads(cli.run("convert", "-", "--to", "machine", text=json.dumps(given)).out)
    assert [each["id"] for each in there] == ["calculator", "get_item_0"]
    assert len(there[0]["capabilities"]) == 2
    back = json.loads(cli.run("convert", "-", "--to", "mcp", text=json.dumps(there)).out)
    assert back == [listed[0], listed[1], tool(0)]


def test_convert_of_a_repeated_id_names_the_line(cli: CliRunner) -> None:
    done = cli.run("convert", "-", "--to", "oxp", text=json.dumps([CALCULATOR, WEATHER, CALCULATOR], indent=1))
    assert done.code == 1
    assert "document 2, /: error: calculator 1.0.0 is document 0 already" in done.err
    line = json.dumps([CALCULATOR, WEATHER], indent=1).count("\n") + 1
    assert done.err.startswith(f"<stdin>:{line}: ")
    assert len(json.loads(done.out)) == 3


def test_convert_of_a_toolkit_with_a_member_named_tools_is_no_wrapper(cli: CliRunner) -> None:
    given = {**tool(0), "tools": ["hammer"]}
    done = cli.run("convert", "-", "--to", "hub", "--from", "mcp", text=json.dumps(given))
    assert json.loads(done.out)["tool"]["capabilities"]["methods"][0]["name"] == "get_item_0"


def test_convert_of_lines_prints_lines_and_converts_back(cli: CliRunner) -> None:
    given = [tool(number) for number in range(4)]
    (cli.folder / "tools.jsonl").write_text("\n" + lines(*given[:2]) + "\n  \n" + lines(*given[2:]))
    there = cli.run("convert", "tools.jsonl", "--to", "oxp")
    assert [json.loads(line)["name"] for line in there.out.splitlines()] == [each["name"] for each in given]
    back = cli.run("convert", "-", "--to", "mcp", text=there.out)
    assert [json.loads(line) for line in back.out.splitlines()] == given


def test_convert_of_streamed_lines_answers_each_before_the_next(cli: CliRunner) -> None:
    with cli.start("convert", "-", "--to", "oxp") as process:
        assert process.stdin is not None
        process.stdin.write(lines(tool(0), tool(1)).encode())  # two, or it could still be a document
        assert json.loads(read_line(process))["name"] == "get_item_0"
        assert json.loads(read_line(process))["name"] == "get_item_1"
        process.stdin.write(lines(tool(2)).encode())
        assert json.loads(read_line(process))["name"] == "get_item_2"
        process.stdin.close()
        assert process.wait(patience()) == 0


def test_convert_of_lines_to_openapi_prints_one_document(cli: CliRunner) -> None:
    done = cli.run("convert", "-", "--to", "openapi", text=lines(tool(0), tool(1)))
    assert len(json.loads(done.out)["paths"]) == 2


def test_convert_with_json_lists_every_loss_with_its_document(cli: CliRunner) -> None:
    done = cli.run("convert", "-", "--to", "anthropic", "--json", text=lines(tool(0), {**tool(1), "title": None}))
    report = done.json()
    assert list(report) == ["documents", "losses"]
    assert [each["name"] for each in report["documents"]] == ["get_item_0", "get_item_1"]
    assert [(loss["index"], loss["path"]) for loss in report["losses"]] == [(0, "/title")]
    assert report["losses"][0]["reason"]
    assert done.err == ""


def test_convert_with_json_and_out_writes_report_and_file(cli: CliRunner) -> None:
    report = cli.run("convert", "-", "--to", "oxp", "--out", "new.json", "--json", text=json.dumps([tool(0)])).json()
    assert report["documents"] == json.loads((cli.folder / "new.json").read_text())


def test_convert_losses_are_counted_by_reason(cli: CliRunner) -> None:
    dotted = [{**tool(number), "name": f"a.{number}"} for number in range(20)]
    done = cli.run("convert", "-", "--to", "anthropic", text=lines(*dotted))
    assert "lost on the way: 40 (all of them: --json)" in done.err
    assert "20 x anthropic refuses this name, or it is taken: document 0, /name; document 1, /name; " in done.err
    assert done.err.count("\n") == 3


def test_convert_of_bad_lines_names_them_and_converts_the_others(cli: CliRunner) -> None:
    text = lines(tool(0), BAD) + "{nope}\n\n" + lines(tool(1), [], {"a": 1}) + '{"name": 1, "name": 2}\n'
    done = cli.run("convert", "-", "--to", "oxp", text=text)
    assert done.code == 1
    assert [json.loads(line)["name"] for line in done.out.splitlines()] == ["get_item_0", "get_item_1"]
    said = done.err.splitlines()
    for place in (
        "<stdin>:2: document 1, /name: error: give 'name' as a text [mcp/missing]",
        "<stdin>:2: document 1, /inputSchema/type: error: ",
        "<stdin>:3: document 2, /: error: the message is not valid JSON: ",
        "<stdin>:6: document 4, /: error: this looks like no known definition; ",
        "<stdin>:7: document 5, /: error: this looks like no known definition; ",
        "<stdin>:8: document 6, /: error: an object has the key 'name' twice; remove one [json/malformed]",
    ):
        assert any(line.startswith(place) for line in said), (place, said)
    assert said[-1] == "toolhall: 5 of 7 documents could not be converted; change what is listed above"
    report = cli.run("convert", "-", "--to", "oxp", "--json", text=text)
    assert report.code == 1
    problems = json.loads(report.out)["problems"]
    assert len(problems) == len([line for line in said if "error: " in line])
    assert problems[0].keys() == {"file", "line", "index", "path", "rule", "severity", "fix"}


def test_convert_of_a_bad_part_that_waits_for_others_keeps_the_next(cli: CliRunner) -> None:
    parts = json.loads(cli.run("convert", "-", "--to", "mcp", text=json.dumps(CALCULATOR)).out)
    (carrier,) = (value for key, value in parts[0]["_meta"].items() if key.endswith("carrier"))
    for change in carrier["group"]:
        change["value"] = 5
    done = cli.run("convert", "-", "--to", "oxp", text=lines(parts[0], tool(0), parts[0], BAD))
    assert done.code == 1
    assert [json.loads(line)["name"] for line in done.out.splitlines()] == ["get_item_0"]
    places = {line[: len("<stdin>:1: document 0")] for line in done.err.splitlines() if line.startswith("<stdin>")}
    assert places == {
        "<stdin>:1: document 0",
        "<stdin>:3: document 2",
        "<stdin>:4: document 3",
    }
    assert "3 of 4 documents" in done.err


BROKEN = [
    ("", 1, "there is nothing here"),
    (" \n\n", 1, "there is nothing here"),
    ('{\n "name": "a",\n "name": "b"\n}', 3, "'name' twice"),
    ('{\n "a": {"b": 1,\n "\\u0062": 2}\n}', 3, "'b' twice"),
    ('[\n {"name": NaN}\n]', 2, "not valid JSON"),
    ("[1,\n2", 2, "ends too early"),
    ('{"name":\n', 1, "ends too early"),
    ('{"name": "a"\n "b": 1}', 2, "not valid JSON"),
    ('{\n"name": "a"}\n{\n"name": "b"}', 3, "write one document in each line"),
    ('\ufeff{"name": "a"}', 1, "byte-order mark"),
    ('{"tools": [{}],\n"tools": [{}]}', 2, "'tools' twice"),
    ('{"tools": [{}],\n"b\\u003a": 1, "b": 1, "b": 2}', 2, "'b' twice"),
    ('{"tools": [{}], "items": [1]}', 1, "two different lists"),
    ('{"tools": [{}], "a": 1234567890123456789012}', 1, "more than 20 digits"),
    ("[" * 5000, 1, "nested more than 64 levels"),
    ('{"tools": ' * 5000, 1, "nested more than 64 levels"),
    ('[{"name": "a", "inputSchema": {}},\n\n{"a": ' + "[" * 70 + "]" * 70 + "}]", 3, "nested more than 64 levels"),
    ("nonsense", 1, "not valid JSON"),
    ("12", 1, "looks like no known definition"),
]


@pytest.mark.parametrize(("text", "line", "said"), BROKEN)
def test_convert_of_lines_that_are_not_json_names_each_line(cli: CliRunner, text: str, line: int, said: str) -> None:
    done = cli.run("convert", "-", "--to", "oxp", "--out", "new.json", text=text)
    assert done.code == 1
    assert done.out == ""
    assert any(each.startswith(f"<stdin>:{line}: ") and said in each for each in done.err.splitlines()), done.err
    assert "Traceback" not in done.err
    assert not any(cli.folder.iterdir())


def test_convert_of_bytes_that_are_not_text_says_so(cli: CliRunner) -> None:
    (cli.folder / "bad.jsonl").write_bytes(b'{"name": "\xff"}\n' + lines(tool(0)).encode())
    done = cli.run("convert", "bad.jsonl", "--to", "oxp")
    assert done.code == 1
    assert "bad.jsonl:1: document 0, /: error: the message is not valid UTF-8" in done.err
    assert done.out.count("\n") == 1


def test_convert_with_a_broken_first_line_converts_the_others(cli: CliRunner) -> None:
    done = cli.run("convert", "-", "--to", "oxp", text='{"name": nope}\n' + lines(tool(0)))
    assert (done.code, done.out.count("\n")) == (1, 1)
    (cli.folder / "cut.jsonl").write_text('{"name": "cut off\n' + lines(tool(0)))
    done = cli.run("convert", "cut.jsonl", "--to", "oxp")
    assert (done.code, done.out.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tools.json"], 2, "--to"),
        (["tools.json", "--to", "soap"], 2, f"use one of {', '.join(DIALECTS)}"),
        (["tools.json", "--to", "mcp", "--from", "gemini"], 2, f"use one of {', '.join(READABLE_DIALECTS)}"),
        (["missing.json", "--to", "mcp"], 2, "there is no file missing.json"),
        ([".", "--to", "mcp"], 2, "is a folder"),
        (["--jsn", "--to", "mcp"], 2, "there is no option --jsn"),
        (["tools.json", "--to", "mcp", "--out", "."], 2, "is a folder"),
        (["tools.json", "--to", "mcp", "--out", "/dev/null"], 2, "redirect"),
        (["tools.json", "--to", "mcp", "--out", "no/where.json"], 1, "choose another place"),
        (["tools.json", "more.json", "--to", "mcp"], 2, "too many words"),
    ],
)
def test_convert_with_wrong_usage_names_the_fix(cli: CliRunner, words: list[str], code: int, said: str) -> None:
    (cli.folder / "tools.json").write_text(json.dumps(tool(0)))
    done = cli.run("convert", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()
    assert [file.name for file in cli.folder.iterdir()] == ["tools.json"]


def test_convert_onto_its_own_source_replaces_the_file(cli: CliRunner) -> None:
    file = cli.folder / "tools.jsonl"
    file.write_text(lines(tool(0), tool(1)))
    file.chmod(0o640)
    (cli.folder / "link.jsonl").symlink_to("tools.jsonl")
    assert cli.run("convert", "tools.jsonl", "--to", "oxp", "-o", "link.jsonl").code == 0
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert (cli.folder / "link.jsonl").is_symlink()
    assert len(list(cli.folder.iterdir())) == 2


def test_convert_of_a_bad_document_onto_its_own_source_keeps_the_file(cli: CliRunner) -> None:
    file = cli.folder / "tools.jsonl"
    before = lines(tool(0), BAD)
    file.write_text(before)
    done = cli.run("convert", "tools.jsonl", "--to", "oxp", "--out", "tools.jsonl")
    assert done.code == 1
    assert "the file is left as it was" in done.err
    assert file.read_text() == before
    assert cli.run("convert", "tools.jsonl", "--to", "oxp", "--out", "new.jsonl").code == 1
    assert (cli.folder / "new.jsonl").read_text().count("\n") == 1
    assert cli.run("convert", "tools.jsonl", "--to", "openai@strict", "--out", "new.jsonl").code == 1
    assert (cli.folder / "new.jsonl").read_text().count("\n") == 1, "nothing new, so the old one stays"
    assert len(list(cli.folder.iterdir())) == 2


def test_convert_to_a_full_disk_prints_one_line(cli: CliRunner) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "convert", "-", "--to", "function"],
            input=json.dumps(tool(0)).encode(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=patience(),
            check=False,
        )
    assert done.returncode == 1
    assert b"toolhall: reading or writing failed: No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_convert_of_hidden_characters_escapes_them_at_terminal_only(cli: CliRunner) -> None:
    hidden = {"name": "a", "description": "one\u202e\u009b two \U000e0041", "parameters": {"type": "object"}}
    (cli.folder / "a.json").write_text(json.dumps(hidden))
    shown = cli.run("convert", "a.json", "--to", "function", terminal=True).out
    assert json.loads(shown.replace("\r", "")) == hidden
    assert "\\u202e\\u009b two \\udb40\\udc41" in shown
    assert "\u202e" in cli.run("convert", "a.json", "--to", "function").out


HUNDRED = lines(*(tool(number) for number in range(100))).encode()


@pytest.fixture
def pipe(cli: CliRunner) -> Path:
    """A named pipe for input that goes on for as long as somebody reads it."""
    made = cli.folder / "tools.jsonl"
    os.mkfifo(made)
    return made


def pour(pipe: Path) -> None:
    """Write definitions, and something else after each hundred, until nobody reads them any more."""
    with contextlib.suppress(BrokenPipeError), pipe.open("wb", buffering=0) as out:
        while True:
            out.write(HUNDRED + b"{nope}\n")


@contextlib.contextmanager
def pouring(pipe: Path) -> Generator[None, None, None]:
    writer = threading.Thread(target=pour, args=(pipe,))
    writer.start()
    try:
        yield
    finally:
        os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # if nobody ever came to read
        writer.join(patience())


def test_convert_interrupted_at_terminal_shows_a_bar_and_leaves_no_file(cli: CliRunner, pipe: Path) -> None:
    with pouring(pipe), cli.terminal("convert", str(pipe), "--to", "oxp", "--out", "new.jsonl") as terminal:
        terminal.expect(" documents")
        terminal.expect("[json/malformed]")  # above the bar
        terminal.expect(" documents")
        assert "new.jsonl" not in [file.name for file in cli.folder.iterdir()], "it is not in its place yet"
        os.killpg(terminal.process.pid, signal.SIGINT)
        code, _ = terminal.end()
    assert code == 130
    assert list(cli.folder.iterdir()) == [pipe]


def test_convert_without_terminal_draws_no_bar(cli: CliRunner, pipe: Path) -> None:
    with cli.start("convert", str(pipe), "--to", "oxp", "--out", "new.jsonl") as process:
        with pipe.open("wb") as out:
            out.writelines([HUNDRED] * 150)
        assert process.wait(patience()) == 0
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert said.startswith("lost on the way: ")
    assert "\x1b" not in said


def test_convert_whose_reader_closes_the_pipe_ends_without_traceback(cli: CliRunner, pipe: Path) -> None:
    with pouring(pipe), cli.start("convert", str(pipe), "--to", "oxp") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert read_line(process)
        process.stdout.close()
        assert process.wait(patience()) == 1
        assert b"Traceback" not in process.stderr.read()


# A process starts with the memory of the one that started it, so a small one does, and prints what the other needed.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def peak(cli: CliRunner, count: int, *words: str) -> int:
    """The most memory that converting so many lines from a pipe takes, in KiB."""
    command = [sys.executable, "-c", MEASURE, *PROGRAM, "convert", "-", "--to", "oxp", *words]
    with (
        (cli.folder / "out").open("wb") as out,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.writelines(lines(tool(number)).encode() for number in range(count))
        process.stdin.close()
        code, used = map(int, process.stderr.read().split())
    assert code == 0
    with (cli.folder / "out").open("rb") as made:
        assert sum(part.count(b'"get_item_') for part in made) >= count
    return used


def test_convert_of_many_definitions_uses_constant_memory(cli: CliRunner) -> None:
    few = peak(cli, 1_000)
    assert peak(cli, count(30_000, 100_000)) < few * 1.1
    assert peak(cli, 10_000, "--json") < few * 1.1
