"""What the person at the terminal reads before saying yes."""

import msgspec
import pytest

from tests.unit.builders import call_of, entry_named
from toolhall.cli import call_ui
from toolhall.cli.call_ui import TerminalApprover
from toolhall.model.caller import RequireVerification
from toolhall.model.requirements import CallerCredentials
from toolhall.model.secret import Secret

BROUGHT = CallerCredentials(
    secrets={"KEY": Secret("sk-brought-by-a-caller")}, tokens={"acme": Secret("sk-brought-by-a-caller")}
)


@pytest.mark.parametrize(("brought", "shown"), [(None, False), (CallerCredentials(), False), (BROUGHT, True)])
async def test_terminal_approver_names_caller_credentials_without_their_values(
    brought: CallerCredentials | None, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def typed() -> str:
        return "y"

    monkeypatch.setattr(call_ui, "read_line", typed)
    monkeypatch.setattr(call_ui, "discard_typed_input", lambda: None)
    call = msgspec.structs.replace(call_of(), caller_credentials=brought)
    assert await TerminalApprover().approve(entry_named().tool, call, {}, RequireVerification("test", 9, "approval"))
    read = capsys.readouterr().err
    assert ("brings  account acme, secret KEY" in read, "brings" in read) == (shown, shown)
    assert "sk-brought" not in read
