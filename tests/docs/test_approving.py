"""The page about approving is a story, and every command on it works against a running hall."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pyotp

from tests.harness.cli import CliRunner
from tests.harness.http_client import request_url
from tests.harness.patience import patience
from tests.harness.processes import read_line

PAGE = (Path(__file__).parents[2] / "docs/how-to/approve.md").read_text()
COMMANDS = re.findall(r"^toolhall ((?:factor|approval) .*)$", PAGE, re.MULTILINE)
TOOLS = '''
from toolhall import tool

@tool(level=9, effect="destroys")
def burn(room: str) -> str:
    """Burn a room down."""
    return f"burnt {room}"
'''


def call(url: str, room: str) -> tuple[int, Any]:
    reply = request_url(f"{url}/tools/house/burn", {"room": room})
    return reply.status, reply.json


def at(command: str, url: str, some_id: str = "") -> list[str]:
    """A command of the page, at this hall."""
    return [some_id if word == "ID" else url if word.startswith("http") else word for word in command.split()]


def test_approving_page_commands_all_work(tmp_path: Path) -> None:
    add_totp, add_passkey, list_factors, list_approvals, approve, deny, remove = COMMANDS
    cli = CliRunner(tmp_path)
    (tmp_path / "house.py").write_text(TOOLS)
    with cli.serve("house.py") as server:
        invited = cli.run(*at(f"{add_passkey} --json", server.url))
        assert re.fullmatch(r"http://localhost:\d+/enroll/[\w-]{32}", invited.json()["url"])
        with cli.start(*at(add_totp, server.url)) as adding:
            assert read_line(adding).startswith("otpauth://totp/toolhall:local?secret=")
            generator = pyotp.TOTP(read_line(adding).strip())
            assert adding.stdin is not None
            adding.stdin.write(b"000000\n" + generator.now().encode() + b"\n")
            assert adding.wait(patience()) == 0
        known = cli.run(*at(f"{list_factors} --json", server.url)).json()
        assert [each["kind"] for each in known] == ["invitation", "totp"]
        assert call(server.url, "attic")[0] == 403
        (waiting,) = cli.run(*at(f"{list_approvals} --json", server.url)).json()
        assert json.loads(waiting["shown"]) == {"room": "attic"}
        right = cli.run(*at(approve, server.url, waiting["id"]), text=generator.at(int(time.time()) + 30))
        assert right.code == 0, right
        assert '"room": "attic"' in right.err
        assert call(server.url, "attic") == (200, "burnt attic")
        assert call(server.url, "attic")[0] == 403
        (again,) = request_url(f"{server.url}/api/approvals").json["approvals"]
        denied = cli.run(*at(deny, server.url, again["id"]))
        assert (denied.code, denied.out) == (0, f"{again['id']} is denied: the call will not run\n")
        assert call(server.url, "attic")[0] == 429
    removing = at(remove, "", known[1]["id"])
    assert cli.run(*removing).code == 0
    assert [each["kind"] for each in cli.run("factor", "list", "--json").json()] == ["invitation"]
