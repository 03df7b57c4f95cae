"""What a hall refuses to start with: settings by which nothing could be supplied."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.patience import patience
from toolhall import Config, Toolhall
from toolhall.config import BadConfig
from toolhall.model.secret import Secret
from toolhall.oauth.providers import ProviderSettings
from toolhall.stores.common import StoreFailed

GOOGLE = {"google": ProviderSettings(client_id="hall", client_secret="secret")}
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(range(1, 33))).decode()


@pytest.mark.parametrize(
    ("config", "fix"),
    [
        (Config(egress_allow=("http://10.0.0.1",)), "egress_allow"),
        (Config(providers={"acme": ProviderSettings(client_id="hall")}), "set issuer, or authorize_url and token_url"),
        (Config(vault_key="short"), "TOOLHALL_VAULT_KEY"),
        (Config(providers=GOOGLE, profile="server", public_url="https://hall.example"), "toolhall secret key"),
        (Config(providers=GOOGLE, profile="server", vault_key=KEY), "set public_url"),
    ],
)
def test_toolhall_with_invalid_credential_settings_raises_bad_config_naming_the_fix(config: Config, fix: str) -> None:
    with pytest.raises(BadConfig, match=fix):
        Toolhall(config=config)


async def test_toolhall_open_with_stored_secrets_and_a_missing_or_wrong_key_raises_store_failed(tmp_path: Path) -> None:
    with Toolhall(config=Config(data=str(tmp_path), vault_key=KEY)) as hall:
        await hall.open()
        await hall.credentials.vault.set("NAME", Secret("value"), None, "test")
    for config in (Config(data=str(tmp_path)), Config(data=str(tmp_path), vault_key=OTHER)):
        with Toolhall(config=config) as hall, pytest.raises(StoreFailed, match="secrets"):
            await hall.open()
    with Toolhall(config=Config(data=str(tmp_path), vault_key=KEY)) as hall:
        await hall.open()
        assert hall.credentials.vault.get("NAME") == Secret("value")


OPENING = """
import asyncio, sys, threading
from toolhall import Config, Toolhall, tool
from toolhall.oauth.providers import ProviderSettings

@tool(secrets=["KEY"])
def needing() -> None: ...

@tool
def plain() -> None: ...

importing = []

class Watching:
    def find_spec(self, name, path=None, target=None):
        if name in ("toolhall.egress.client", "httpx2"):
            importing.append(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watching())
with Toolhall({tools}, config=Config({settings})) as hall:
    assert not importing, "nobody needs it to list tools"
    asyncio.run(hall.open())
print(importing)
"""


@pytest.mark.parametrize(
    ("tools", "settings", "imported"),
    [
        ("plain", "", "[]"),
        ("needing", "", "[False, False]"),
        ("plain", "providers={'google': ProviderSettings(client_id='hall')}", "[False, False]"),
    ],
)
def test_toolhall_open_imports_the_egress_client_in_a_thread_only_when_it_is_needed(
    tools: str, settings: str, imported: str
) -> None:
    program = OPENING.format(tools=tools, settings=settings)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=patience(), check=False
    )
    assert done.stdout.strip() == imported, done.stderr
