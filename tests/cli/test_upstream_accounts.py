"""`toolhall account connect upstream:NAME`, without a running hall."""

import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from tests.harness.http_client import request_url
from tests.harness.patience import PROGRAM, patience
from tests.servers.protected_upstream import protected_upstream


def test_account_connect_to_an_upstream_links_by_a_pasted_address(tmp_path: Path) -> None:
    with protected_upstream() as notes:
        allowed = json.dumps([urlsplit(each).netloc for each in (notes.origin, notes.authority.issuer)])
        settings = f'data = "data"\negress_allow = {allowed}\n[upstreams.notes]\nurl = "{notes.url}"\nauth = "oauth"\n'
        (tmp_path / "toolhall.toml").write_text(settings)
        pipe = subprocess.PIPE
        command = [*PROGRAM, "account", "connect", "upstream:notes", "--paste"]
        with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as program:
            assert program.stdout is not None
            url = program.stdout.readline().strip()
            assert url.startswith(notes.authority.issuer), program.communicate(timeout=patience())
            back = request_url(url).headers["location"]
            said, problem = program.communicate(f"{back}\n", timeout=patience())
        assert (program.returncode, said) == (0, "upstream:notes is connected\n"), problem
        listed = _run(tmp_path, "account", "list", "--json")
        (account,) = json.loads(listed.stdout)
        assert account["provider"] == "upstream:notes"
        assert notes.authority.count("/register") == 1
        unknown = _run(tmp_path, "account", "connect", "upstream:mail", "--paste")
        assert (unknown.returncode, "there is no upstream 'mail'" in unknown.stderr) == (1, True)


def _run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=patience(), check=False
    )
