"""`toolhall call` on a file: its tools are supplied from the data folder, whether or not a hall serves from there."""

from tests.cli.shell import Shell

TOOL = '''
from toolhall import Context, tool


@tool(secrets=["KEY"], effect="reads")
async def letters(ctx: Context) -> int:
    """How long the secret is."""
    return len(ctx.secret("KEY"))
'''


def test_a_tool_in_a_file_gets_its_secret(shell: Shell) -> None:
    file = shell.folder / "letters.py"
    file.write_text(TOOL)
    without = shell.run("call", "letters", str(file))
    assert without.code == 1
    assert "toolhall secret set KEY" in without.err
    shell.run("secret", "set", "KEY", text="SK01234567")
    assert shell.run("call", "letters", str(file)).out == "10\n"


def test_also_while_a_hall_serves_from_the_same_folder(shell: Shell) -> None:
    file = shell.folder / "letters.py"
    file.write_text(TOOL)
    with shell.serving(str(file)) as hall:
        shell.run("secret", "set", "KEY", "--url", hall.url, text="SK01234567")
        assert shell.run("call", "letters", "--url", hall.url).out == "10\n"
        assert shell.run("call", "letters", str(file)).out == "10\n"
