"""`toolhall call` on a file: its tools are supplied from the data folder, whether or not a hall serves from there."""

import shlex

import pytest

from tests.cli.test_accounts import acme
from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.servers import authority as servers
from tests.servers.authority import Authority

__all__ = ["acme"]
TOOL = '''
from toolhall import Context, tool


@tool(secrets=["KEY"], effect="reads")
async def letters(ctx: Context) -> int:
    """How long the secret is."""
    return len(ctx.secret("KEY"))
'''


def test_call_of_a_tool_in_a_file_gets_its_secret(cli: CliRunner) -> None:
    file = cli.folder / "letters.py"
    file.write_text(TOOL)
    without = cli.run("call", "letters", str(file))
    assert without.code == 1
    assert "toolhall secret set KEY" in without.err
    cli.run("secret", "set", "KEY", text="SK01234567")
    assert cli.run("call", "letters", str(file)).out == "10\n"


def test_call_beside_a_serving_hall_gets_its_secret(cli: CliRunner) -> None:
    file = cli.folder / "letters.py"
    file.write_text(TOOL)
    with cli.serve(str(file)) as hall:
        cli.run("secret", "set", "KEY", "--url", hall.url, text="SK01234567")
        assert cli.run("call", "letters", "--url", hall.url).out == "10\n"
        assert cli.run("call", "letters", str(file)).out == "10\n"


BOTH = '''
from toolhall import Context, tool


@tool(secrets=["KEY"], account="acme:mail.read mail.send", effect="reads")
async def letters(ctx: Context) -> int:
    """How long the secret is."""
    return len(ctx.secret("KEY")) if ctx.account.token else 0
'''


def test_call_without_its_secret_prints_a_command_that_can_be_run(
    cli: CliRunner, acme: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder whose name a shell would take apart, and which is not the one that the commands would find."""
    (cli.folder / "letters.py").write_text(BOTH)
    call = ["call", "letters", "letters.py", "--data", "other place"]
    _, _, line = cli.run(*call).err.partition("run: ")
    secret, connect = (shlex.split(each)[1:] for each in line.split(" && "))
    assert (secret[:3], connect[:3]) == (["secret", "set", "KEY"], ["account", "connect", "acme"])
    assert cli.run(*secret, text="SK01234567").code == 0
    monkeypatch.setattr(servers.Devices, "INTERVAL", 1)
    with cli.start(*connect) as process:
        assert read_line(process).strip() == f"{acme.issuer}/device"
        acme.entered[read_line(process).strip()] = True
        out, err = process.communicate(timeout=patience())
    assert (process.returncode, out) == (0, b"acme is connected with mail.read mail.send profile\n"), err
    assert cli.run(*call).out == "10\n"
