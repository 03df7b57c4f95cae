"""`toolhall key` and `toolhall grant`, on a data folder and at a running hall; and every command that sends a key."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import KIT, Shell

TOOLS = """
from toolhall import tool

@tool(version="1.0.0", level=4)
def push(repo: str) -> str:
    \"\"\"Push to a repository.\"\"\"
    return f"pushed {repo}"
"""


@pytest.fixture(params=["data", "url"])
def where(shell: Shell, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The words that name a hall: a folder of its own, or a process that serves."""
    if request.param == "data":
        yield ["--data", str(shell.folder / "hall")]
        return
    with shell.serving(KIT) as server:
        yield ["--url", server.url]


def test_a_key_is_made_listed_and_revoked(shell: Shell, where: list[str]) -> None:
    made = shell.run("key", "create", "ci", "--scopes", "admin, tools:Kit", "--owner", "ada", "--shared", *where)
    assert (made.code, made.out.count("\n"), made.out[:3]) == (0, 1, "tk_"), "piped, the key is alone"
    assert "cannot be shown again" in made.err
    assert made.out.strip() not in made.err
    second = shell.run("key", "create", "ci", "--expires", "never", "--json", *where)
    assert sorted(second.json()) == ["expires", "id", "name", "secret"]
    assert (second.json()["expires"], "never expires" in second.err) == (None, True)
    listed = shell.run("key", "list", "--json", *where).json()
    assert [(key["name"], key["owner"], key["shared"]) for key in listed] == [("ci", "ada", True), ("ci", None, False)]
    assert made.out.strip() not in json.dumps(listed)
    assert shell.run("key", "revoke", listed[0]["id"], *where).out == f"the key {listed[0]['id']} of ci is revoked\n"
    shown = shell.run("key", "list", *where).out.splitlines()
    assert ["revoked" in shown[1], "good" in shown[2], len(shown)] == [True, True, 3]
    assert "there is no key of this id" in shell.run("key", "revoke", "x", *where).complaint()


def test_a_grant_is_added_listed_and_removed(shell: Shell, where: list[str]) -> None:
    words = ["--when", "/repo=a", "--when", "/repo=b", "--when", "/n=5", *where]
    added = shell.run("grant", "add", "ci", "Kit.*", *words)
    grant_id = added.out.partition(":")[0]
    assert added.out == f'{grant_id}: ci may call Kit.* when /repo is "a" or "b", /n is 5\n'
    forbid = shell.run("grant", "add", "*", "Kit.wipe", "--forbid", "--json", *where).json()
    listed = shell.run("grant", "list", "--json", *where).json()
    assert [each["effect"] for each in listed] == ["permit", "forbid"]
    assert listed[0]["conditions"] == [{"path": "/repo", "oneOf": ["a", "b"]}, {"path": "/n", "oneOf": [5]}]
    assert grant_id in shell.run("grant", "list", *where).out
    assert shell.run("grant", "remove", grant_id, *where).out == f"the grant {grant_id} is removed\n"
    assert shell.run("grant", "list", "--json", *where).json() == [forbid]
    assert "there is no grant of this id" in shell.run("grant", "remove", grant_id, *where).complaint()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["key", "create", "local"], 1, "choose another"),
        (["key", "create", "ci", "--expires", "soon"], 1, "such as 90d"),
        (["key", "create", "ci", "--scopes", "root"], 1, "there is no scope 'root'"),
        (["key", "list", "--data", "nowhere"], 1, "there is no hall in nowhere"),
        (["key", "list", "--key", "tk_x"], 2, "name it with --url"),
        (["list", KIT, "--key", "tk_x"], 2, "name it with --url"),
        (["key", "list", "--url", "http://127.0.0.1:1", "--key", "a b"], 2, "--key holds no key"),
        (["grant", "add", "ci", "*", "--when", "repo"], 2, "write it like /repo=main"),
        (["grant", "add", "c i", "*"], 1, "callers are 1 to 256"),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_code(shell: Shell, words: list[str], code: int, said: str) -> None:
    done = shell.run(*words)
    assert (done.code, done.out) == (code, "")
    assert said in done.complaint()


def test_every_command_at_a_url_sends_the_key_and_none_shows_it(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    admin = shell.run("key", "create", "boss", "--scopes", "admin,tools:*").out.strip()
    secret = shell.run("key", "create", "ci").out.strip()
    shell.run("grant", "add", "ci", "*.push")
    shell.run("grant", "add", "boss", "*")
    with shell.serving("tools.py", "--profile", "server") as server:
        at = ["--url", server.url]
        assert "TOOLHALL_KEY" in shell.run("call", "push", "repo=a", "--yes", *at).complaint()
        assert "TOOLHALL_KEY" in shell.run("key", "list", *at).complaint()
        wrong = shell.run("list", "--key", secret[:-1] + "!", *at).complaint()
        assert "does not accept this key" in wrong
        shell.environment["TOOLHALL_KEY"] = secret
        assert "pushed a" in shell.run("call", "push", "repo=a", "--yes", *at).out
        assert shell.run("inspect", "push", "--json", *at).json()["name"].endswith("push")
        assert shell.run("tool", "list", *at).code == shell.run("key", "list", *at).code == 1, "it is no admin's"
        locked = shell.run("lock", "--out", "tools.lock", *at)
        assert (locked.code, shell.run("verify", "tools.lock", *at).code) == (0, 0), locked
        shell.environment["TOOLHALL_KEY"] = "no key"
        for words in (["list"], ["tool", "list"], ["key", "list"], ["grant", "list"]):
            done = shell.run(*words, "--key", admin, *at)
            assert (done.code, admin in done.out + done.err) == (0, False), done
        refused = shell.run("list", *at).complaint()
        assert ("TOOLHALL_KEY holds no key" in refused, "no key at" in refused) == (True, False)
    for file in [*shell.data.rglob("*"), *tmp_path.glob("*.jsonl")]:
        assert not file.is_file() or secret.encode() not in file.read_bytes()
