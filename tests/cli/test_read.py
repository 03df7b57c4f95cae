"""`toolhall read` and `toolhall prompt`, and the sections of `toolhall list` and `toolhall inspect` for them."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_remote import Recorder, Stub, stub
from tests.harness.cli import KIT, CliRunner
from tests.harness.processes import read_line
from toolhall.cli.clients.http import parse_endpoint
from toolhall.cli.clients.mcp import McpConnection

SHOP = str(Path(__file__).parent / "shop.py")
POLICY = "# Refunds\nå"
HERE, THERE = "file", "url"


@pytest.fixture(scope="module")
def shop_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with CliRunner(tmp_path_factory.mktemp("server")).serve(SHOP) as server:
        yield server.url


@pytest.fixture(params=[HERE, THERE])
def source(request: pytest.FixtureRequest, shop_url: str) -> list[str]:
    """Where the shop is: in this process, or behind a URL."""
    return ["--target", SHOP] if request.param == HERE else ["--url", shop_url]


def test_read_writes_a_text_as_it_is(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("read", "shop://policy", *source)
    assert (done.code, done.out) == (0, POLICY)


def test_read_writes_bytes_as_they_are(cli: CliRunner, source: list[str]) -> None:
    with cli.start("read", "shop://logo", *source) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"\x89PNG\xff"
        assert process.wait() == 0


def test_read_with_out_writes_a_file(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("read", "shop://logo", *source, "--out", "logo.png")
    assert (done.code, done.out) == (0, "")
    assert "shop://logo is written to logo.png (image/png, 5 bytes)\n" in done.err
    assert (cli.folder / "logo.png").read_bytes() == b"\x89PNG\xff"


def test_read_of_binary_at_a_terminal_is_refused_with_the_fix(cli: CliRunner, source: list[str]) -> None:
    with cli.terminal("read", "shop://logo", *source) as terminal:
        code, shown = terminal.end()
    assert code == 1
    assert "shop://logo is binary (image/png, 5 bytes) and would garble the terminal" in shown
    assert "write it to a file with --out FILE, or pipe it" in shown


def test_read_with_json_prints_the_result(cli: CliRunner, source: list[str]) -> None:
    assert cli.run("read", "shop://policy", *source, "--json").json() == {
        "contents": [{"uri": "shop://policy", "mimeType": "text/markdown", "text": POLICY}],
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": {"dev.toolhall/removed": 1},
    }
    binary = cli.run("read", "shop://logo", *source, "--json").json()
    assert base64.b64decode(binary["contents"][0]["blob"]) == b"\x89PNG\xff"


def test_read_of_a_template_fills_in_the_values_and_shows_the_log(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("read", "shop://orders/17", *source)
    assert (done.code, json.loads(done.out)) == (0, {"number": 17, "what": "tea"})
    assert "info: order 17" in done.err


def test_read_of_several_contents_prints_each_below_its_uri(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("read", "shop://files", *source)
    assert done.out.splitlines() == [
        "--- shop://files/a (of no stated type, 1 byte)",
        "A",
        "--- shop://files/b (of no stated type, 1 byte)",
        "[binary; --json prints it]",
    ]
    refused = cli.run("read", "shop://files", *source, "--out", "all")
    assert (refused.code, "shop://files has 2 contents, and --out takes one; use --json" in refused.err) == (1, True)
    assert not (cli.folder / "all").exists()


def test_read_of_what_is_only_linked_to_works(cli: CliRunner, source: list[str]) -> None:
    assert cli.run("read", "shop://hidden", *source).out == "found"


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("shop://polic", "there is no resource 'shop://polic'; did you mean 'shop://policy'?"),
        ("shop://orders/100", "there is no resource 'shop://orders/100'; shop://orders/{number} has nothing by these"),
        ("shop://orders/x", "there is no resource 'shop://orders/x'; shop://orders/{number} has nothing by these"),
        ("zzz:", "there is no resource 'zzz:'; see the URIs with 'toolhall list --kind resource'"),
    ],
)
def test_read_of_an_unknown_uri_names_the_nearest(cli: CliRunner, source: list[str], uri: str, said: str) -> None:
    done = cli.run("read", uri, *source)
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_read_asks_the_person(cli: CliRunner, source: list[str]) -> None:
    with cli.terminal("read", "shop://greeting", *source) as terminal:
        terminal.expect("Who reads?")
        terminal.expect("name: ")
        terminal.type("Ada")
        terminal.expect("Hello Ada")
        assert terminal.end()[0] == 0
    assert cli.run("read", "shop://greeting", *source).out == "Hello stranger"


def test_read_without_its_secret_names_the_command_that_sets_it(cli: CliRunner) -> None:
    done = cli.run("read", "shop://balance", SHOP)
    assert (done.code, "toolhall secret set BANK_KEY" in done.err) == (1, True)
    assert cli.run("secret", "set", "BANK_KEY", text="hunter2-hunter2").code == 0
    assert cli.run("read", "shop://balance", SHOP).out == "a key of 15 characters"


def test_read_of_what_crashes_shows_the_traceback_to_the_author_only(cli: CliRunner, shop_url: str) -> None:
    here = cli.run("read", "shop://crash", SHOP)
    assert (here.code, "canary-5f1c" in here.err) == (1, True)
    there = cli.run("read", "shop://crash", "--url", shop_url)
    assert (there.code, "canary-5f1c" in there.err) == (1, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shop://policy", SHOP, "--timeout", "0"), "--timeout must be more than 0 seconds"),
        (("shop://policy", SHOP, "--json", "--out", "x"), "leave out one of them"),
        (("shop://policy", SHOP, "--url", "http://127.0.0.1:9"), "give a target"),
        ((), "URI"),
        (("shop://policy", SHOP, "--data", "/dev/null/x"), "the data folder /dev/null/x cannot be used"),
    ],
)
def test_read_with_wrong_usage_exits_with_2(cli: CliRunner, words: tuple[str, ...], said: str) -> None:
    done = cli.run("read", *words)
    assert (done.code, said in done.err) == (1 if "--data" in words else 2, True), done


def test_read_from_a_server_without_resources_says_so(cli: CliRunner) -> None:
    with cli.serve(KIT) as server:
        done = cli.run("read", "shop://policy", "--url", server.url)
        assert "has no resource to read; 'toolhall list --url" in done.error_line()
        assert "there is no prompt 'greet'" in cli.run("prompt", "greet", "--url", server.url).error_line()


def test_prompt_prints_one_message_as_it_is(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("prompt", "Shop_greet", "name=Ada", *source)
    assert (done.code, done.out) == (0, "Say hello to Ada.\n")


def test_prompt_prints_several_messages_with_who_says_each(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("prompt", "Shop_refund", "number=17", "tone=firm", *source)
    assert done.code == 0
    assert done.out.splitlines() == [
        "user:",
        "[resource shop://orders/17 application/json]",
        "{",
        '  "what": "tea"',
        "}",
        "user:",
        "[image image/png, 8 characters of base64]",
        "assistant:",
        "A firm letter.",
    ]


def test_prompt_with_json_prints_the_result(cli: CliRunner, source: list[str]) -> None:
    found = cli.run("prompt", "Shop.greet@1.2.0", *source, "--json").json()
    assert found == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello to you."}}],
        "description": "Greet somebody.",
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("Shop_gret",), 1, "there is no prompt 'Shop_gret'; did you mean 'Shop_greet'?"),
        (("Shop_greet", "nam=Ada"), 2, "Shop_greet takes no argument 'nam'; did you mean 'name'?"),
        (("Shop_refund",), 2, "Shop_refund needs number; write number=... for it"),
        (("Shop_greet", "name=a", "name=b"), 2, "'name' is given twice"),
        (("Shop_greet", "Ada"), 2, "'Ada' is no key=value"),
        (("Shop_refund", "number=x"), 1, "/number"),
    ],
)
def test_prompt_with_wrong_words_names_the_fix(
    cli: CliRunner, source: list[str], words: tuple[str, ...], code: int, said: str
) -> None:
    done = cli.run("prompt", *words, *source)
    assert (done.code, said in done.err) == (code, True), done


def test_list_has_a_section_for_each_kind(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("list", *source)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines() if line] == [
        *("Tools", "name", "Shop_count"),
        *("Resources", "uri", "shop://policy", "shop://logo", "shop://files", "shop://greeting", "shop://balance"),
        *("shop://crash", "shop://orders/{number}"),
        *("Prompts", "name", "Shop_refund", "Shop_greet"),
    ]
    lines = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line}
    assert lines["shop://policy"] == ["2", "text/markdown", "Our", "rules", "for", "refunds."]
    assert lines["Shop_refund"] == ["1.2.0", "2", "number", "[tone]", "Draft", "a", "letter", "for", "one", "order."]


def test_list_of_one_kind_prints_its_table_alone(cli: CliRunner, source: list[str]) -> None:
    done = cli.run("list", *source, "--kind", "prompt")
    assert [line.split()[0] for line in done.out.splitlines()] == ["name", "Shop_refund", "Shop_greet"]
    assert cli.run("list", KIT, "--kind", "resource").out.split() == ["uri", "level", "type", "description"]
    assert cli.run("list", *source, "--kind", "prompt", "--dialect", "mcp").code == 2


def test_list_with_json_names_the_kind_of_each(cli: CliRunner, source: list[str]) -> None:
    found: list[Any] = cli.run("list", *source, "--json").json()
    assert [each["kind"] for each in found] == ["tool", *["resource"] * 7, *["prompt"] * 2]
    by_name = {each["name"]: each for each in found}
    policy, order, refund = (by_name[f"Shop_{name}"] for name in ("policy", "order", "refund"))
    assert list(by_name["Shop_count"]) == list(policy)[:11] == list(refund)[:11]
    assert (policy["id"], policy["uri"], policy["title"]) == ("Shop.policy@1.2.0", "shop://policy", "Refunds")
    assert (order["uriTemplate"], order["mimeType"], order["effect"]) == (
        "shop://orders/{number}",
        "application/json",
        "reads",
    )
    assert refund["arguments"] == [
        {"name": "number", "description": "Which order", "required": True},
        {"name": "tone"},
    ]
    assert [by_name["Shop_greet"][name] for name in ("level", "effectiveLevel")] == [4, 4]


@pytest.mark.parametrize("name", ["shop://policy", "Shop_policy", "Shop.policy", "Shop.policy@1.2.0"])
def test_inspect_of_a_resource_finds_it_by_uri_name_and_id(cli: CliRunner, source: list[str], name: str) -> None:
    done = cli.run("inspect", *source, name)
    assert done.code == 0
    for part in ("shop://policy\n", "And a second paragraph.", "published as  Shop_policy", "text/markdown", '"uri"'):
        assert part in done.out


def test_inspect_of_a_uri_finds_its_template(cli: CliRunner) -> None:
    found = cli.run("inspect", SHOP, "shop://orders/17", "--json").json()
    assert found["uriTemplate"] == "shop://orders/{number}"
    assert list(found["views"]) == ["mcp@2025-06-18", "mcp@2025-11-25", "mcp@2026-07-28"]
    assert found["inputSchema"]["required"] == ["number"]


def test_inspect_names_the_members_that_differ_between_revisions(cli: CliRunner) -> None:
    assert "differs between revisions of MCP: icons" in cli.run("inspect", SHOP, "shop://logo").out
    assert "differs" not in cli.run("inspect", SHOP, "shop://policy").out


def test_inspect_of_everything_prints_a_few_lines_of_each(cli: CliRunner, source: list[str]) -> None:
    brief = cli.run("inspect", *source).out
    assert "published as Shop_count; level 2" in brief
    assert "template published as Shop_order; level 2; type application/json" in brief
    assert "prompt published as Shop_refund; level 2; arguments number, [tone]" in brief
    only = cli.run("inspect", *source, "--kind", "prompt", "--json").json()
    assert [each["name"] for each in only] == ["Shop_refund", "Shop_greet"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shop://nothing",), "there is no resource 'shop://nothing'; see them with 'toolhall list --kind resource'"),
        (("nothing", "--kind", "prompt"), "there is no prompt 'nothing'; see them with 'toolhall list --kind prompt'"),
        (("Shop_coun",), "there is no tool 'Shop_coun'; did you mean 'Shop_count'?"),
    ],
)
def test_inspect_of_what_is_not_there_says_so(cli: CliRunner, words: tuple[str, ...], said: str) -> None:
    done = cli.run("inspect", *words, "--target", SHOP)
    assert (done.code, said in done.err) == (1, True), done


def test_call_of_a_resource_or_prompt_names_the_command_for_it(cli: CliRunner) -> None:
    assert "get it with 'toolhall prompt Shop_greet'" in cli.run("call", "Shop_greet", SHOP).err
    assert "read it with 'toolhall read shop://policy'" in cli.run("call", "Shop.policy@1.2.0", SHOP).err


def test_serve_counts_what_it_serves(cli: CliRunner) -> None:
    with cli.start("serve", SHOP, "--port", "0") as process:
        assert process.stdout is not None
        lines = [read_line(process)]
        while "Ctrl+C" not in lines[-1]:
            lines.append(read_line(process))
    assert "1 tool, 6 resources, 1 resource template, 2 prompts\n" in lines


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_session_client_reads_and_gets_in_older_revisions(shop_url: str, revision: str) -> None:
    client = McpConnection(parse_endpoint(shop_url, None), revision)
    try:
        recorder = Recorder()
        asked = client.interact("resources/read", {"uri": "shop://greeting"}, recorder, 30)
        assert asked["contents"][0]["text"] == "Hello Ada"
        assert recorder.heard == [("elicitation/create", "Who reads?")]
        got = client.interact("prompts/get", {"name": "Shop_greet", "arguments": {"name": "Ada"}}, recorder, 30)
        assert got["messages"][0]["content"]["text"] == "Say hello to Ada."
        assert {"resources", "prompts"} <= client.capabilities.keys()
    finally:
        client.close()


LIES: list[tuple[str, Any, str]] = [
    ("read", {"contents": []}, "the server's answer is no resource: it has no contents"),
    ("read", {"contents": [{"uri": "a:b"}]}, "its contents have no text and no blob"),
    ("read", {"contents": [{"uri": "a:b", "blob": "%%%"}]}, "the blob of a:b is no base64"),
    ("prompt", {"messages": "hello"}, "the server's answer is no prompt: it has no messages"),
    ("prompt", {"messages": [{"role": "system", "content": {"type": "text"}}]}, "a message has no role or no content"),
    ("prompt", {"messages": [{"role": "user", "content": "hi"}]}, "a message has no role or no content"),
]


def server_that_answers(result: object) -> Any:
    """A server of 2026-07-28 with one prompt and one resource, which answers as told."""

    def answers(http: Stub, message: dict[str, Any]) -> None:
        match message["method"]:
            case "server/discover":
                capabilities: dict[str, Any] = {"resources": {}, "prompts": {}}
                http.result(message, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            case "prompts/list":
                http.result(message, {"prompts": [{"name": "one", "arguments": "none"}, {"name": "one"}, {}]})
            case _:
                http.result(message, result)

    return answers


@pytest.mark.parametrize(("command", "result", "said"), LIES)
def test_answers_of_a_careless_server_are_refused(cli: CliRunner, command: str, result: Any, said: str) -> None:
    with stub(server_that_answers(result)) as url:
        done = cli.run(command, "a:b" if command == "read" else "one", "--url", url)
    assert (done.code, said in done.error_line()) == (1, True), done


def test_texts_of_a_server_at_a_terminal_show_what_is_invisible(cli: CliRunner) -> None:
    ugly = {"contents": [{"uri": "a:b", "text": "a\u202e\x1b[31mb"}]}
    with stub(server_that_answers(ugly)) as url:
        with cli.terminal("read", "a:b", "--url", url) as terminal:
            code, shown = terminal.end()
        piped = cli.run("read", "a:b", "--url", url)
    assert code == 0
    assert "a<U+202E><U+001B>[31mb" in shown
    assert piped.out == "a\u202e\x1b[31mb"
