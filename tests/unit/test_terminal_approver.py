"""What the person at the terminal reads before saying yes."""

import msgspec
import pytest

from tests.unit.parts import call_of, entry_named
from toolhall.cli import terminal_approver
from toolhall.cli.terminal_approver import TerminalApprover
from toolhall.model.requirements import Brought
from toolhall.model.secret import Secret
from toolhall.model.verdict import Verify

BROUGHT = Brought(secrets={"KEY": Secret("sk-brought-by-a-caller")}, tokens={"acme": Secret("sk-brought-by-a-caller")})


@pytest.mark.parametrize(("brought", "shown"), [(None, False), (Brought(), False), (BROUGHT, True)])
async def test_credentials_that_the_caller_brings_are_named(
    brought: Brought | None, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def typed() -> str:
        return "y"

    monkeypatch.setattr(terminal_approver, "read_line", typed)
    monkeypatch.setattr(terminal_approver, "forget_typed", lambda: None)
    call = msgspec.structs.replace(call_of(), brought=brought)
    assert await TerminalApprover().approve(entry_named().tool, call, {}, Verify("test", 9, "approval"))
    read = capsys.readouterr().err
    assert ("brings  account acme, secret KEY" in read, "brings" in read) == (shown, shown)
    assert "sk-brought" not in read
