"""`toolhall audit`: records are shown, found, exported and verified, in a folder and at a running hall."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.shell import KIT, Shell, read_line
from tests.unit.stores.audit.audit_logs import NOON, record, wrote
from toolhall.stores.audit.format import segments_of


def audit(shell: Shell) -> Path:
    """An audit that no hall writes to."""
    shell.data.mkdir(mode=0o700, exist_ok=True)
    wrote(shell.data / "audit", 30)
    return shell.data / "audit"


@pytest.mark.parametrize("way", ["data", "url"])
def test_records_of_a_running_hall_are_shown_and_found(shell: Shell, way: str) -> None:
    with shell.serving(KIT) as server:
        shell.run("call", "Shop_sell", "what=tea", "--yes", "--url", server.url)
        shell.run("call", "Shop_sell", "what=7", "--yes", "--url", server.url)
        where = ["--data", str(shell.data)] if way == "data" else ["--url", server.url]
        told = shell.run("audit", "tail", "--json", *where).json()
        assert [each["number"] for each in told] == sorted(each["number"] for each in told)
        assert {each["tool"] for each in told} == {"Shop.sell@2.1.0"}
        assert shell.run("audit", "tail", "-n", "1", "--json", *where).json() == told[-1:]
        shown = shell.run("audit", "search", "--tool", "Shop.sell", "--since", "2020-01-01", *where).out.splitlines()
        assert len(shown) == len(told)
        assert all("Shop.sell@2.1.0" in line for line in shown)
        assert shell.run("audit", "search", "--caller", "nobody", *where).err == "no record fits\n"
        wrong = shell.run("audit", "search", "--since", "yesterday", *where)
        assert "since is a day or a time" in wrong.complaint()
        assert wrong.code == (2 if way == "data" else 1)


def test_what_comes_is_followed(shell: Shell) -> None:
    folder = audit(shell)
    with shell.started("audit", "tail", "-n", "1", "--follow", "--json") as following:
        assert json.loads(read_line(following))["call"] == "call-29"
        wrote(folder, 2, start=30)
        assert [json.loads(read_line(following))["call"] for _ in range(2)] == ["call-30", "call-31"]


def test_what_a_record_says_cannot_steer_a_terminal(shell: Shell) -> None:
    folder = audit(shell)
    segment = segments_of(folder / "1")[1]
    segment.write_bytes(segment.read_bytes().replace(b'"caller":"ada"', b'"caller":"\\u001b[2J\\u202e"'))
    shown = shell.run("audit", "tail").out
    assert "<U+001B>[2J<U+202E>" in shown
    assert "\x1b" not in shown


def test_a_good_audit_is_said_to_be_good(shell: Shell) -> None:
    audit(shell)
    done = shell.run("audit", "verify")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("30 records in 1 log, 7 checkpoints: all as they were written, as far as this folder")
    assert "--checkpoints" in done.out
    report = shell.run("audit", "verify", "--json").json()
    assert (report["good"], report["findings"], report["records"]) == (True, [], 30)


def test_keys_that_others_can_read_are_named_by_verify(shell: Shell) -> None:
    key = audit(shell) / "audit.key"
    key.chmod(0o644)
    done = shell.run("audit", "verify")
    assert done.code == 0
    assert f"{key} can be opened by other users of this machine (mode 0644); run: chmod 600 {key}" in done.err


def test_a_running_hall_can_be_verified(shell: Shell) -> None:
    with shell.serving(KIT) as server:
        shell.run("call", "Shop_sell", "what=tea", "--yes", "--url", server.url)
        done = shell.run("audit", "verify")
        assert done.code == 0
        assert "cannot be told from a crash" in done.err
    assert "1 checkpoint:" in shell.run("audit", "verify").out


def test_what_was_changed_is_named(shell: Shell) -> None:
    segment = segments_of(audit(shell) / "1")[1]
    segment.write_bytes(segment.read_bytes().replace(b"call-20", b"call-99"))
    done = shell.run("audit", "verify")
    assert done.code == 1
    assert f"1/{segment.name}, line " in done.out
    assert ": changed: " in done.out
    told = shell.run("audit", "verify", "--json")
    (finding,) = told.json()["findings"]
    assert (told.code, finding["what"], finding["file"]) == (1, "changed", f"1/{segment.name}")


def test_copies_kept_elsewhere_are_asked(shell: Shell) -> None:
    folder = audit(shell)
    elsewhere = shell.folder / "elsewhere"
    shutil.copytree(folder / "1", shell.folder / "yesterday")
    wrote(folder, 20, start=30)
    elsewhere.mkdir()
    for name in ("audit.checkpoints", "audit.pub"):
        shutil.copy(folder / name, elsewhere)
    shutil.rmtree(folder / "1")
    shutil.copytree(shell.folder / "yesterday", folder / "1")
    (folder / "audit.checkpoints").unlink()
    alone = shell.run("audit", "verify")
    assert alone.code == 1, "what was signed was seen, so that file was removed"
    assert "give a copy of it with --checkpoints" in alone.out
    copies = ["--checkpoints", str(elsewhere / "audit.checkpoints"), "--key", str(elsewhere / "audit.pub")]
    done = shell.run("audit", "verify", *copies)
    assert done.code == 1
    assert ": rollback: " in done.out


def test_everything_is_exported_in_order(shell: Shell) -> None:
    audit(shell)
    lines = [json.loads(line) for line in shell.run("audit", "export").out.splitlines()]
    assert [line["call"] for line in lines] == [f"call-{number}" for number in range(30)]
    told = shell.run("audit", "export", "--out", "all.jsonl", "--json").json()
    assert told == {"records": 30, "out": "all.jsonl"}
    out = shell.folder / "all.jsonl"
    assert [json.loads(line) for line in out.read_text().splitlines()] == lines
    assert out.stat().st_mode & 0o777 == 0o600


def test_reading_changes_nothing(shell: Shell) -> None:
    folder = audit(shell)

    def seen() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}

    before = seen()
    for words in (["tail"], ["search", "--caller", "ada"], ["verify"], ["export"]):
        assert shell.run("audit", *words).code == 0
    assert seen() == before
    assert [path.name for path in shell.data.iterdir()] == ["audit"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tail"], 1, "nothing is recorded in"),
        (["verify"], 1, "nothing is recorded in"),
        (["tail", "-n", "0"], 2, "--number is a number from 1 to 1000"),
        (["search", "--limit", "1001"], 2, "--limit is a number from 1 to 1000"),
        (["tail", "--url", "http://127.0.0.1:1", "--data", "x"], 2, "not both"),
    ],
)
def test_what_goes_wrong_is_one_line(shell: Shell, words: list[str], code: int, said: str) -> None:
    done = shell.run("audit", *words)
    assert done.code == code
    assert said in done.complaint()


def test_a_key_that_is_none_is_refused(shell: Shell) -> None:
    audit(shell)
    (shell.folder / "some.pub").write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    assert "is no Ed25519 public key" in shell.run("audit", "verify", "--key", "some.pub").complaint()
    assert "there is no file" in shell.run("audit", "verify", "--key", "none.pub").complaint()


def test_level_and_time_are_filters_too(shell: Shell) -> None:
    audit(shell)
    assert shell.run("audit", "search", "--level", "4", "--json").json() == []
    assert "level is a number from 0 to 10" in shell.run("audit", "search", "--level", "11").complaint()
    assert record().time == NOON + 1
    found = shell.run("audit", "search", "--since", "2024-10-04T12:00:28Z", "--json").json()
    assert [each["call"] for each in found] == ["call-29", "call-28"]
