"""`toolhall audit`: records are shown, found, exported and verified, in a folder and at a running hall."""

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.unit.stores.audit.audit_logs import NOON, record, write_records
from toolhall.stores.audit.hash_chain import segments_of


def audit(cli: CliRunner) -> Path:
    """An audit that no hall writes to."""
    cli.data.mkdir(mode=0o700, exist_ok=True)
    write_records(cli.data / "audit", 30)
    return cli.data / "audit"


@pytest.mark.parametrize("way", ["data", "url"])
def test_audit_tail_and_search_of_a_running_hall_find_the_records(cli: CliRunner, way: str) -> None:
    with cli.serve(KIT) as server:
        cli.run("call", "Shop_sell", "what=tea", "--yes", "--url", server.url)
        cli.run("call", "Shop_sell", "what=7", "--yes", "--url", server.url)
        where = ["--data", str(cli.data)] if way == "data" else ["--url", server.url]
        deadline = time.monotonic() + patience()
        while len(told := cli.run("audit", "tail", "--json", *where).json()) < 4:  # the last outcome is written soon
            assert time.monotonic() < deadline, told
        assert [each["number"] for each in told] == sorted(each["number"] for each in told)
        assert {each["tool"] for each in told} == {"Shop.sell@2.1.0"}
        assert cli.run("audit", "tail", "-n", "1", "--json", *where).json() == told[-1:]
        shown = cli.run("audit", "search", "--tool", "Shop.sell", "--since", "2020-01-01", *where).out.splitlines()
        assert len(shown) == len(told)
        assert all("Shop.sell@2.1.0" in line for line in shown)
        assert cli.run("audit", "search", "--caller", "nobody", *where).err == "no record fits\n"
        wrong = cli.run("audit", "search", "--since", "yesterday", *where)
        assert "since is a day or a time" in wrong.error_line()
        assert wrong.code == (2 if way == "data" else 1)


def test_audit_tail_with_follow_prints_new_records(cli: CliRunner) -> None:
    folder = audit(cli)
    with cli.start("audit", "tail", "-n", "1", "--follow", "--json") as following:
        assert json.loads(read_line(following))["call"] == "call-29"
        write_records(folder, 2, start=30)
        assert [json.loads(read_line(following))["call"] for _ in range(2)] == ["call-30", "call-31"]


def test_audit_tail_of_a_record_with_control_characters_escapes_them(cli: CliRunner) -> None:
    folder = audit(cli)
    segment = segments_of(folder / "1")[1]
    segment.write_bytes(segment.read_bytes().replace(b'"caller":"ada"', b'"caller":"\\u001b[2J\\u202e"'))
    shown = cli.run("audit", "tail").out
    assert "<U+001B>[2J<U+202E>" in shown
    assert "\x1b" not in shown


def test_audit_verify_of_an_intact_audit_succeeds(cli: CliRunner) -> None:
    audit(cli)
    done = cli.run("audit", "verify")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("30 records in 1 log, 7 checkpoints: all as they were written, as far as this folder")
    assert "--checkpoints" in done.out
    report = cli.run("audit", "verify", "--json").json()
    assert (report["good"], report["findings"], report["records"]) == (True, [], 30)


def test_audit_verify_with_a_readable_key_file_names_it(cli: CliRunner) -> None:
    key = audit(cli) / "audit.key"
    key.chmod(0o644)
    done = cli.run("audit", "verify")
    assert done.code == 0
    assert f"{key} can be opened by other users of this machine (mode 0644); run: chmod 600 {key}" in done.err


def test_audit_verify_of_a_running_hall_succeeds(cli: CliRunner) -> None:
    with cli.serve(KIT) as server:
        cli.run("call", "Shop_sell", "what=tea", "--yes", "--url", server.url)
        done = cli.run("audit", "verify")
        assert done.code == 0
        assert "cannot be told from a crash" in done.err
    assert "1 checkpoint:" in cli.run("audit", "verify").out


def test_audit_verify_of_a_changed_record_names_its_line(cli: CliRunner) -> None:
    segment = segments_of(audit(cli) / "1")[1]
    segment.write_bytes(segment.read_bytes().replace(b"call-20", b"call-99"))
    done = cli.run("audit", "verify")
    assert done.code == 1
    assert f"1/{segment.name}, line " in done.out
    assert ": changed: " in done.out
    told = cli.run("audit", "verify", "--json")
    (finding,) = told.json()["findings"]
    assert (told.code, finding["what"], finding["file"]) == (1, "changed", f"1/{segment.name}")


def test_audit_verify_with_kept_checkpoints_compares_them(cli: CliRunner) -> None:
    folder = audit(cli)
    elsewhere = cli.folder / "elsewhere"
    shutil.copytree(folder / "1", cli.folder / "yesterday")
    write_records(folder, 20, start=30)
    elsewhere.mkdir()
    for name in ("audit.checkpoints", "audit.pub"):
        shutil.copy(folder / name, elsewhere)
    shutil.rmtree(folder / "1")
    shutil.copytree(cli.folder / "yesterday", folder / "1")
    (folder / "audit.checkpoints").unlink()
    alone = cli.run("audit", "verify")
    assert alone.code == 1, "what was signed was seen, so that file was removed"
    assert "give a copy of it with --checkpoints" in alone.out
    copies = ["--checkpoints", str(elsewhere / "audit.checkpoints"), "--key", str(elsewhere / "audit.pub")]
    done = cli.run("audit", "verify", *copies)
    assert done.code == 1
    assert ": rollback: " in done.out


def test_audit_export_of_everything_keeps_the_order(cli: CliRunner) -> None:
    audit(cli)
    lines = [json.loads(line) for line in cli.run("audit", "export").out.splitlines()]
    assert [line["call"] for line in lines] == [f"call-{number}" for number in range(30)]
    told = cli.run("audit", "export", "--out", "all.jsonl", "--json").json()
    assert told == {"records": 30, "out": "all.jsonl"}
    out = cli.folder / "all.jsonl"
    assert [json.loads(line) for line in out.read_text().splitlines()] == lines
    assert out.stat().st_mode & 0o777 == 0o600


def test_audit_commands_that_read_change_no_file(cli: CliRunner) -> None:
    folder = audit(cli)

    def seen() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}

    before = seen()
    for words in (["tail"], ["search", "--caller", "ada"], ["verify"], ["export"]):
        assert cli.run("audit", *words).code == 0
    assert seen() == before
    assert [path.name for path in cli.data.iterdir()] == ["audit"]


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
def test_audit_command_with_wrong_words_prints_one_line(cli: CliRunner, words: list[str], code: int, said: str) -> None:
    done = cli.run("audit", *words)
    assert done.code == code
    assert said in done.error_line()


def test_audit_verify_with_an_invalid_key_refuses(cli: CliRunner) -> None:
    audit(cli)
    (cli.folder / "some.pub").write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    assert "is no Ed25519 public key" in cli.run("audit", "verify", "--key", "some.pub").error_line()
    assert "there is no file" in cli.run("audit", "verify", "--key", "none.pub").error_line()


def test_audit_search_by_level_and_time_filters_records(cli: CliRunner) -> None:
    audit(cli)
    assert cli.run("audit", "search", "--level", "4", "--json").json() == []
    assert "level is a number from 0 to 10" in cli.run("audit", "search", "--level", "11").error_line()
    assert record().time == NOON + 1
    found = cli.run("audit", "search", "--since", "2024-10-04T12:00:28Z", "--json").json()
    assert [each["call"] for each in found] == ["call-29", "call-28"]
