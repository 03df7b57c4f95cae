"""The page about the audit: its commands work, and it explains every finding and every file."""

import re
import shutil
from pathlib import Path
from typing import get_args

from tests.harness.cli import KIT, CliRunner
from toolhall.stores.audit.anchors import FindingKind

PAGE = (Path(__file__).parents[2] / "docs/how-to/audit.md").read_text()
COMMANDS = re.findall(r"^toolhall (audit .*)$", PAGE, re.MULTILINE)


def test_auditing_page_commands_all_work(tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    with cli.serve(KIT) as server:
        cli.run("call", "Shop_sell", "what=tea", "--yes", "--url", server.url)
    (tmp_path / "elsewhere").mkdir()
    for name in ("audit.pub", "audit.checkpoints"):
        shutil.copy(cli.data / "audit" / name, tmp_path / "elsewhere")
    for command in COMMANDS:
        done = cli.run(*command.split())
        assert done.code == 0, (command, done)
    assert {command.split()[1] for command in COMMANDS} == {"tail", "search", "verify", "accept", "export"}
    assert "Shop.sell" in (tmp_path / "records.jsonl").read_text()
    made = {path.name for path in (cli.data / "audit").rglob("*") if path.is_file()} - {"audit.lock"}
    assert all(name in PAGE for name in made), made


def test_auditing_page_explains_every_finding() -> None:
    table = re.findall(r"^\| `([a-z ]+)` \|", PAGE, re.MULTILINE)
    assert sorted(table) == sorted(get_args(FindingKind))
