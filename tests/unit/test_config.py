"""Settings: from a file, from the environment, from the command line."""

import re
from pathlib import Path
from typing import Any

import pytest

from toolhall.config import BadConfig, Config, Issuer, LogOutput, load_config
from toolhall.model.upstream import UpstreamSettings
from toolhall.oauth.providers import ProviderSettings
from toolhall.pipeline.limit import Concurrency
from toolhall.pipeline.policy import LevelRequirements
from toolhall.pipeline.rate_buckets import Rate

DEFAULTS = Config()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "toolhall.toml"


def test_load_config_without_sources_returns_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(environment={}) == DEFAULTS


def test_load_config_reads_toolhall_toml_of_the_working_directory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('name = "mine"\nport = 9000\nallowed_hosts = ["a.example"]\n')
    monkeypatch.chdir(file.parent)
    config = load_config(environment={})
    assert (config.name, config.port, config.allowed_hosts) == ("mine", 9000, ("a.example",))


def test_load_config_precedence_is_arguments_then_environment_then_file(file: Path) -> None:
    file.write_text('port = 1\nname = "file"\nhost = "file"\n')
    environment = {"TOOLHALL_NAME": "environment", "TOOLHALL_HOST": "environment", "OTHER": "x", "PORT": "7"}
    config = load_config(file, environment, host="given", port=None)
    assert (config.port, config.name, config.host) == (1, "environment", "given")


@pytest.mark.parametrize(
    ("variable", "text", "setting", "value"),
    [
        ("TOOLHALL_PORT", "9000", "port", 9000),
        ("TOOLHALL_CALL_TIMEOUT", "2.5", "call_timeout", 2.5),
        ("TOOLHALL_PROFILE", "server", "profile", "server"),
        ("TOOLHALL_DATA", "folder", "data", "folder"),
        ("TOOLHALL_ALLOWED_HOSTS", "a.example, b.example", "allowed_hosts", ("a.example", "b.example")),
        ("TOOLHALL_ALLOWED_HOSTS", '["a.example", "b.example"]', "allowed_hosts", ("a.example", "b.example")),
        ("TOOLHALL_EGRESS_ALLOW", "[::1]:9000, 10.0.0.0/8", "egress_allow", ("[::1]:9000", "10.0.0.0/8")),
        ("TOOLHALL_TOOL_LIMIT", "null", "tool_limit", None),
        ("TOOLHALL_ALLOWED_HOSTS", "", "allowed_hosts", ()),
        ("TOOLHALL_ALLOWED_HOSTS", ",", "allowed_hosts", ()),
        ("TOOLHALL_RECORD", "Calendar.*, Weather.Get@*", "record", ("Calendar.*", "Weather.Get@*")),
        ("TOOLHALL_SEARCH", "true", "search", True),
        ("TOOLHALL_SEARCH", "0", "search", False),
        ("TOOLHALL_PINNED", "get_weather, Kit.tool@^1.2", "pinned", ("get_weather", "Kit.tool@^1.2")),
    ],
)
def test_load_config_converts_variables_to_the_type_of_their_setting(
    variable: str, text: str, setting: str, value: Any
) -> None:
    assert getattr(load_config(environment={variable: text}), setting) == value


# What has parts of its own is JSON.
STRUCTURED: dict[str, tuple[str, Any]] = {
    "tool_limit": ('{"per_second": 2, "burst": 3}', Rate(2, 3)),
    "pair_limit": ('{"per_second": 0.5}', Rate(0.5, 1)),
    "costs": ('{"Image.*": 10}', {"Image.*": 10}),
    "levels": ('{"Mail.*": 6}', {"Mail.*": 6}),
    "concurrency": ('{"per_caller": 20}', Concurrency(per_caller=20)),
    "log": ('{"access": true}', LogOutput(access=True)),
    "upstreams": ('{"Docs": {"url": "https://a.example"}}', {"Docs": UpstreamSettings(url="https://a.example")}),
    "steps": ('{"recent": 5}', LevelRequirements(recent=5)),
    "providers": ('{"google": {"client_id": "hall"}}', {"google": ProviderSettings(client_id="hall")}),
    "issuers": ('[{"name": "corp", "issuer": "https://id"}]', (Issuer(name="corp", issuer="https://id"),)),
}


@pytest.mark.parametrize("setting", STRUCTURED)
def test_load_config_structured_variable_that_is_not_json_raises_bad_config(setting: str) -> None:
    with pytest.raises(BadConfig, match=f"TOOLHALL_{setting.upper()} is not valid JSON: a (table|list).* is wanted"):
        load_config(environment={f"TOOLHALL_{setting.upper()}": "{"})


@pytest.mark.parametrize("wrong", ['{"per_second": 0}', '{"per_second": 1, "burst": 0}', '{"rate": 1}', "{}"])
def test_load_config_invalid_rate_limit_raises_bad_config(wrong: str) -> None:
    with pytest.raises(BadConfig, match="tool_limit"):
        load_config(environment={"TOOLHALL_TOOL_LIMIT": wrong})


def test_load_config_reads_a_secret_from_a_file_and_hides_it_in_repr(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("CANARY-0123456789012345678901234567\n")
    config = load_config(environment={"TOOLHALL_OXP_SECRET_FILE": str(tmp_path / "secret")})
    assert config.oxp_secret == "CANARY-0123456789012345678901234567"
    assert "CANARY" not in repr(config)
    with pytest.raises(BadConfig, match="TOOLHALL_OXP_SECRET_FILE cannot be read"):
        load_config(environment={"TOOLHALL_OXP_SECRET_FILE": str(tmp_path / "missing")})


@pytest.mark.parametrize("setting", Config.__struct_fields__)
def test_load_config_every_setting_has_an_environment_variable(setting: str) -> None:
    default = getattr(DEFAULTS, setting)
    text = ",".join(default) if isinstance(default, tuple) else str(default if default is not None else "x")
    expected = "x" if default is None else default
    text, expected = STRUCTURED.get(setting, (text, expected))
    assert getattr(load_config(environment={f"TOOLHALL_{setting.upper()}": text}), setting) == expected


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("prot", "port"),
        ("page_sise", "page_size"),
        ("allowed_host", "allowed_hosts"),
        ("call_time_out", "call_timeout"),
    ],
)
def test_load_config_unknown_setting_names_the_nearest_one(file: Path, key: str, nearest: str) -> None:
    file.write_text(f"{key} = 1\n")
    with pytest.raises(BadConfig, match=rf"toolhall\.toml: there is no setting '{key}'; did you mean '{nearest}'\?"):
        load_config(file, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[providers.google]\nclient_idd = "x"',
            "'providers.google.client_idd'; did you mean 'providers.google.client_id'?",
        ),
        ('[[issuers]]\nname = "a"\nisuer = "x"', "'issuers[0].isuer'; did you mean 'issuers[0].issuer'?"),
        ("[steps]\nrecnt = 5", "'steps.recnt'; did you mean 'steps.recent'?"),
    ],
)
def test_load_config_unknown_member_of_a_setting_names_the_nearest_one(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(BadConfig, match=re.escape(f"there is no setting {told}")):
        load_config(file, {})


def test_load_config_unknown_setting_unlike_any_other_lists_all_settings(file: Path) -> None:
    file.write_text("zzzzzz = 1\n")
    with pytest.raises(BadConfig, match="there is no setting 'zzzzzz'; known are name, instructions, profile, host"):
        load_config(file, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('port = "abc"', 'port: a whole number from 0 to 65535 is wanted, not text "abc"'),
        ("port = 70000", "port: a whole number from 0 to 65535 is wanted, not the number 70000"),
        ("port = -1", "port: a whole number from 0 to 65535 is wanted, not the number -1"),
        ("port = true", "port: a whole number from 0 to 65535 is wanted, not true"),
        ("name = 3", "name: text is wanted, not the number 3"),
        ('profile = "cloud"', "profile: 'local' or 'server' is wanted, not text \"cloud\""),
        ("page_size = 0", "page_size: a whole number of at least 1 is wanted, not the number 0"),
        ("calls_per_second = 0", "calls_per_second: a number above 0 is wanted, not the number 0"),
        ("call_burst = 0.5", "call_burst: a number of at least 1 is wanted, not the number 0.5"),
        ("allowed_hosts = 3", 'allowed_hosts: a list of texts, such as ["a", "b"] is wanted, not the number 3'),
        ('search = "often"', 'search: true or false is wanted, not text "often"'),
        ('pinned = "Kit.tool"', 'pinned: a list of texts, such as ["a", "b"] is wanted, not text "Kit.tool"'),
        ('pinned = ["a", 3]', "pinned[1]: text is wanted, not the number 3"),
        ('levels = {"Mail.*" = 11}', "levels.Mail.*: a whole number from 0 to 10 is wanted, not the number 11"),
        ("concurrency = {per_caller = 0}", "concurrency.per_caller: a whole number of at least 1 is wanted, not the"),
        ("tool_limit = 3", "tool_limit: a table with per_second, burst is wanted, not the number 3"),
        ("tool_limit = {burst = 3}", "tool_limit.per_second: it is missing; a number above 0 is wanted"),
        ("tool_limit = {per_secnd = 3, per_second = 1}", "there is no setting 'tool_limit.per_secnd'; did you mean"),
        ('[[issuers]]\nname = "a"', "issuers[0].issuer: it is missing; text is wanted"),
        (
            'issuers = "x"',
            "issuers: a list, each a table with name, issuer, jwks_url, audience, client_id, client_secret is wanted",
        ),
        ("oxp_secret = [1]", "oxp_secret: text is wanted, not a list"),
        ('port = "x"\nthreads = 0', 'not text "x"; toolhall.toml: threads: a whole number of at least 1 is wanted'),
    ],
)
def test_load_config_invalid_value_names_file_setting_and_expected_type(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    file.write_text(text)
    monkeypatch.chdir(file.parent)
    with pytest.raises(BadConfig) as caught:
        load_config(environment={})
    assert str(caught.value).startswith("toolhall.toml: ")
    assert told in str(caught.value)


def test_load_config_error_does_not_contain_secret_values(file: Path) -> None:
    file.write_text('[providers.google]\nclient_id = "a"\nclient_secret = "hunter2"\ntoken_auth = "hunter2"\n')
    with pytest.raises(BadConfig, match=r"providers\.google\.token_auth: .* is wanted, not this text") as caught:
        load_config(file, {})
    assert "hunter2" not in str(caught.value)


def test_load_config_accepts_the_smallest_values(file: Path) -> None:
    file.write_text(
        "port = 0\npage_size = 1\nthreads = 1\ncall_burst = 1\ncalls_per_second = 0.01\ncall_timeout = 0.01\n"
        "max_body_bytes = 1\nmax_output_bytes = 1\n"
    )
    config = load_config(file, {})
    assert (config.port, config.page_size, config.call_burst, config.max_body_bytes) == (0, 1, 1, 1)


def test_load_config_log_settings_are_case_insensitive(file: Path) -> None:
    file.write_text('log_level = "INFO"\nlog_format = "JSON"\n')
    config = load_config(file, {})
    assert (config.log_level, config.log.format) == ("info", "json")
    config = load_config(file, {"TOOLHALL_LOG_LEVEL": "Debug", "TOOLHALL_LOG_FORMAT": "Text"})
    assert (config.log_level, config.log.format) == ("debug", "text")


def test_load_config_invalid_value_names_its_variable_or_option() -> None:
    with pytest.raises(BadConfig, match=r'^TOOLHALL_PORT: a whole number from 0 to 65535 is wanted, not text "many"$'):
        load_config(environment={"TOOLHALL_PORT": "many"})
    with pytest.raises(BadConfig, match=r"^TOOLHALL_PAIR_LIMIT: pair_limit.burst: a number of at least 1 is wanted"):
        load_config(environment={"TOOLHALL_PAIR_LIMIT": '{"per_second": 1, "burst": 0}'})
    with pytest.raises(
        BadConfig, match=r"^TOOLHALL_EGRESS_ALLOW: egress_allow\[0\]: text is wanted, not the number 1$"
    ):
        load_config(environment={"TOOLHALL_EGRESS_ALLOW": "[1]"})
    with pytest.raises(BadConfig, match=r"^--port: a whole number from 0 to 65535 is wanted, not the number 70000$"):
        load_config(environment={}, port=70_000)


def test_load_config_missing_file_that_was_requested_raises_bad_config(file: Path) -> None:
    with pytest.raises(BadConfig, match=r"there is no file .*toolhall\.toml; leave out --config or create it"):
        load_config(file, {})


@pytest.mark.parametrize("content", [b"port = = 3", b"port", b"[unclosed", b"\xff\xfe"])
def test_load_config_file_that_is_not_toml_raises_bad_config(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(BadConfig, match=r"toolhall\.toml is not valid TOML: "):
        load_config(file, {})


def test_load_config_path_that_is_a_folder_raises_bad_config(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be read"):
        load_config(tmp_path, {})


def test_config_is_immutable() -> None:
    with pytest.raises(AttributeError):
        DEFAULTS.port = 1  # type: ignore[misc]


def test_config_has_at_most_forty_settings() -> None:
    assert len(Config.__struct_fields__) <= 40


def test_load_config_takes_the_old_name_of_a_setting(file: Path) -> None:
    file.write_text("max_concurrency = 7\nconcurrency = {per_tool = 2}\n")
    config = load_config(file, {})
    assert (config.concurrency.total, config.concurrency.per_tool) == (7, 2)
    assert load_config(file, {"TOOLHALL_MAX_CONCURRENCY": "9"}).concurrency.total == 9
    file.write_text("max_concurrency = 7\nconcurrency = {total = 8}\n")
    assert load_config(file, {}).concurrency.total == 8, "the new name wins"


def test_load_config_old_names_in_variables_change_single_members_of_a_table(file: Path) -> None:
    file.write_text('log = {format = "json"}\n')
    assert load_config(file, {"TOOLHALL_ACCESS_LOG": "true"}).log == LogOutput(format="json", access=True)
    both = {"TOOLHALL_ACCESS_LOG": "true", "TOOLHALL_LOG_FORMAT": "text"}
    assert load_config(file, both).log == LogOutput(format="text", access=True)
    with pytest.raises(BadConfig, match=r"^TOOLHALL_ACCESS_LOG: log\.access: true or false is wanted"):
        load_config(file, {"TOOLHALL_ACCESS_LOG": "perhaps"})


def test_load_config_reads_upstreams(file: Path) -> None:
    file.write_text(
        '[upstreams.Docs]\nurl = "https://mcp.example.com/mcp"\nheaders = {"X-Api-Key" = "${secret:DOCS_KEY}"}\n'
        'only = ["search_*"]\nexcept = ["search_all"]\n\n'
        '[upstreams.Files]\ncommand = "npx"\nargs = ["-y", "files@1.2.3"]\n'
    )
    assert load_config(file, {}).upstreams == {
        "Docs": UpstreamSettings(
            url="https://mcp.example.com/mcp",
            headers={"X-Api-Key": "${secret:DOCS_KEY}"},
            only=("search_*",),
            except_=("search_all",),
        ),
        "Files": UpstreamSettings(command="npx", args=("-y", "files@1.2.3")),
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('[upstreams.Docs]\nurl = "https://a.example"\nexept = ["a"]', "did you mean 'upstreams.Docs.except'?"),
        (
            '[upstreams.Docs]\nurl = "https://a.example"\nlevel = 11',
            "upstreams.Docs.level: a whole number from 0 to 10",
        ),
        ('[upstreams.Docs]\nurl = "hunter2"', "upstreams.Docs: url is not the address of a server"),
        ("[upstreams.Docs]", "upstreams.Docs: an upstream has either url or command"),
        ('[upstreams.Docs]\nurl = "https://a.example"\nheaders = {A = ["hunter2"]}', "text is wanted, not a list"),
        ('[upstreams."a b"]\nurl = "https://a.example"', "'a b' is not a name of an upstream"),
        ('upstreams = {a = {command = "x"}, A = {command = "y"}}', "two names differ only in capital letters"),
        ('[mcpServers.a]\nargs = ["x"]', "mcpServers: a: it has neither command nor url"),
        ('mcpServers = "missing.json"', "mcpServers: the file that it names cannot be read: FileNotFoundError"),
        ('mcpServers = "{"', "mcpServers: line 1, column 2: the name of a member was expected"),
    ],
)
def test_load_config_upstream_that_cannot_be_used_is_refused(file: Path, settings: str, said: str) -> None:
    file.write_text(f"{settings}\n")
    with pytest.raises(BadConfig) as wrong:
        load_config(file, {})
    assert said in str(wrong.value)
    assert "toolhall.toml" in str(wrong.value)
    assert "hunter2" not in str(wrong.value)


@pytest.mark.parametrize("form", ["table", "text", "path"])
def test_load_config_mcp_servers_are_upstreams(file: Path, form: str) -> None:
    text = '{"mcpServers": {"my docs": {"url": "https://a.example/mcp", "headers": {"X-Key": "${KEY}"}}, /* */ }}'
    (file.parent / "mcp.json").write_text(text)
    file.write_text(
        {
            "table": '[mcpServers."my docs"]\nurl = "https://a.example/mcp"\nheaders = {X-Key = "${KEY}"}\n',
            "text": f"mcpServers = '''{text}'''\n",
            "path": 'mcpServers = "mcp.json"\n',
        }[form]
    )
    found = load_config(file, {"KEY": "hunter2-hunter2"})
    assert found.upstreams["my-docs"].headers == {"X-Key": "hunter2-hunter2"}
    assert "hunter2" not in repr(found)
    assert load_config(file, {}).upstreams["my-docs"].headers == {"X-Key": "${secret:KEY}"}, "it waits for a secret"


def test_load_config_mcp_servers_give_way_to_upstreams_of_the_same_name(file: Path) -> None:
    file.write_text('[upstreams.a]\ncommand = "stated"\n[mcpServers.a]\ncommand = "x"\n[mcpServers.b]\ncommand = "y"\n')
    assert {name: each.command for name, each in load_config(file, {}).upstreams.items()} == {"a": "stated", "b": "y"}


def test_load_config_server_with_an_unset_variable_in_its_url_is_left_out_with_a_warning(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text('[mcpServers.a]\nurl = "https://${HOST}/mcp"\n[mcpServers.b]\ncommand = "y"\n')
    assert [*load_config(file, {}).upstreams] == ["b"]
    assert "mcpServers: a waits: the variable HOST is not set" in caplog.text
