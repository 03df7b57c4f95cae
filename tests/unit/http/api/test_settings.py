"""`/api/settings`: every setting, where it comes from, and no secret."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.http.api.management_client import manage
from tests.unit.http.api.test_described import check, described
from toolhall import Config, Toolhall
from toolhall.app.setting_rows import Deployment
from toolhall.config import SettingOrigin, load_config_with_origins
from toolhall.oauth.providers import ProviderSettings

VAULT_KEY = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY="
CLIENT_SECRET = "client-secret-0123456789"
PASSWORD = "pass-word-0123456789"


async def settings(hall: Toolhall) -> Any:
    reply = await manage(hall, "GET", "/api/settings")
    assert reply.status == 200, reply
    return reply.body


async def test_settings_show_value_default_and_origin(tmp_path: Path) -> None:
    file = tmp_path / "hall.toml"
    file.write_text('page_size = 50\nsearch = true\nlevels = {"Mail.*" = 6}\n')
    environment = {"TOOLHALL_PAGE_SIZE": "60", "TOOLHALL_AUDIT_DAYS": "30", "TOOLHALL_DATA": str(tmp_path / "data")}
    config, origins = load_config_with_origins(file, environment, name="harbour", host=None)
    async with Toolhall(config=config) as hall:
        hall.deployment = Deployment(origins, workers=3)
        shown = await settings(hall)
        rows = {row["name"]: row for row in shown["settings"]}
        assert list(rows) == list(Config.__struct_fields__)
        assert all(row["description"] for row in shown["settings"])
        found = {name: [rows[name][key] for key in ("value", "default", "source", "where")] for name in rows}
        assert found["page_size"] == [60, 100, "environment", "TOOLHALL_PAGE_SIZE"]
        assert found["search"] == [True, False, "file", str(file)]
        assert found["levels"] == [{"Mail.*": 6}, {}, "file", str(file)]
        assert found["name"] == ["harbour", "toolhall", "option", "--name"]
        assert found["host"] == ["127.0.0.1", "127.0.0.1", "default", None]
        assert (shown["workers"], shown["process"], shown["data"]) == (3, os.getpid(), str(tmp_path / "data"))
        assert 0 < shown["disk"]["freeBytes"] <= shown["disk"]["totalBytes"]
        assert shown["versions"].keys() == {"toolhall", "python"}
        check(await described(hall), "/api/settings", "get", await manage(hall, "GET", "/api/settings"))


async def test_settings_of_code_say_so() -> None:
    with Toolhall(config=Config(page_size=7)) as hall:
        await hall.open()
        shown = await settings(hall)
    rows = {row["name"]: row["source"] for row in shown["settings"]}
    assert (rows.pop("page_size"), set(rows.values())) == ("code", {"default"})
    assert (shown["disk"], shown["data"], shown["workers"]) == (None, None, 1)


async def test_settings_hold_no_secret(tmp_path: Path) -> None:
    key = tmp_path / "vault.key"
    key.write_text(VAULT_KEY)
    config, origins = load_config_with_origins(None, {"TOOLHALL_VAULT_KEY_FILE": str(key)})
    assert origins == {"vault_key": SettingOrigin("environment", "TOOLHALL_VAULT_KEY_FILE")}
    provider = ProviderSettings(client_id="public-id", client_secret=CLIENT_SECRET)
    changed: dict[str, Any] = {name: getattr(config, name) for name in Config.__struct_fields__} | {
        "oxp_secret": "oxp-secret-0123456789-0123456789",
        "resource": f"https://user:{PASSWORD}@hall.example/",
        "providers": {"google": provider},
    }
    with Toolhall(config=Config(**changed)) as hall:
        await hall.open()
        hall.deployment = Deployment(origins)
        shown = await settings(hall)
    rows = {row["name"]: row for row in shown["settings"]}
    text = json.dumps(shown)
    for secret in (VAULT_KEY, CLIENT_SECRET, PASSWORD, "oxp-secret"):
        assert secret not in text
    for name in ("vault_key", "oxp_secret"):
        assert (rows[name]["value"], rows[name]["secret"]) == (None, True)
    assert rows["vault_key"]["where"] == "TOOLHALL_VAULT_KEY_FILE"
    assert rows["providers"]["value"]["google"]["client_secret"] is None
    assert rows["providers"]["value"]["google"]["client_id"] == "public-id"
    assert rows["resource"]["value"].startswith("https://")


@pytest.mark.parametrize("query", ["?x=1", "?secret=true"])
async def test_settings_take_no_parameters(query: str) -> None:
    with Toolhall() as hall:
        await hall.open()
        assert (await manage(hall, "GET", f"/api/settings{query}")).status == 400
