"""The page about signing in: its commands work, its settings are read, and each credential is taken where it says."""

import re
import time
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import OctKey

from tests.harness.cli import CliRunner
from tests.harness.http_client import request_url
from toolhall.config import load_config

PAGE = (Path(__file__).parents[2] / "docs/how-to/sign-in.md").read_text()
CREATE, SERVE = re.findall(r"^toolhall (.*)$", PAGE, re.MULTILINE)
SECRET = "a secret of thirty-two bytes or more"
TOOLS = '''
from toolhall import tool

@tool
def ping() -> str:
    """Say that it is there."""
    return "pong"
'''


def asked(port: int, path: str, message: Any = None, **headers: str) -> tuple[int, bytes]:
    """The status and the body of a reply."""
    stated = {name.replace("_", "-"): said for name, said in headers.items()}
    reply = request_url(f"http://127.0.0.1:{port}{path}", message, stated)
    return reply.status, reply.body


def machine(token: str) -> Any:
    header = {"version": "1.0", "messageId": "1", "messageType": "request"}
    called = {"id": "my_tools", "capability": "ping", "parameters": {}}
    return {"header": header, "payload": {"tool": called, "security": {"token": token}}}


def test_signing_in_page_credentials_are_accepted_as_it_says(tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    (tmp_path / "my_tools.py").write_text(TOOLS)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    cli.environment["TOOLHALL_OXP_SECRET_FILE"] = str(tmp_path / "secret")
    made = cli.run(*CREATE.split())
    assert made.code == 0, made
    key = made.out.strip()
    with cli.serve(*SERVE.split()[1:]) as server:
        port = int(server.url.rpartition(":")[2])
        assert asked(port, "/tools")[0] == 401
        assert asked(port, "/health")[0] == 200
        call, rest = {"request": {"tool_id": "my_tools.ping"}}, "/tools/my_tools/ping"
        assert asked(port, rest, {}, Authorization=f"Bearer {key}")[0] == 200
        assert asked(port, "/oxp/tools/call", call, OXP_API_Key=key)[0] == 200
        assert asked(port, "/machine", machine(key))[0] == 200
        token = jwt.encode({"alg": "HS256"}, {"exp": int(time.time()) + 60}, OctKey.import_key(SECRET))
        status, body = asked(port, "/oxp/tools/call", call, Authorization=f"Bearer {token}")
        assert (status, b"pong" in body) == (200, True)
        assert asked(port, rest, {}, Authorization=f"Bearer {token}")[0] == 401


def test_signing_in_page_settings_can_be_read(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "toolhall.toml").write_text(block)
    config = load_config(tmp_path / "toolhall.toml", {})
    assert (config.profile, config.issuers[0].name) == ("server", "corp")
