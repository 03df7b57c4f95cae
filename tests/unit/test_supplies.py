"""What a hall refuses to start with: settings by which nothing could be supplied."""

import base64
from pathlib import Path

import pytest

from toolhall import Config, Toolhall
from toolhall.accounts.providers import ProviderSettings
from toolhall.config import BadConfig
from toolhall.model.secret import Secret
from toolhall.stores.base import StoreFailed

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
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_fix(config: Config, fix: str) -> None:
    with pytest.raises(BadConfig, match=fix):
        Toolhall(config=config)


async def test_a_hall_with_secrets_and_no_key_for_them_does_not_open(tmp_path: Path) -> None:
    with Toolhall(config=Config(data=str(tmp_path), vault_key=KEY)) as hall:
        await hall.open()
        await hall.supplies.vault.set("NAME", Secret("value"), None, "test")
    for config in (Config(data=str(tmp_path)), Config(data=str(tmp_path), vault_key=OTHER)):
        with Toolhall(config=config) as hall, pytest.raises(StoreFailed, match="secrets"):
            await hall.open()
    with Toolhall(config=Config(data=str(tmp_path), vault_key=KEY)) as hall:
        await hall.open()
        assert hall.supplies.vault.get("NAME") == Secret("value")
