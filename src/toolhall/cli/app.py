"""The cyclopts application, and `run_app`: parses every command line that the fast parser leaves to it.

The commands are those of `command_table.SECTIONS`; each is imported when it is used. Commands that the fast parser
also reads (`cli/fast_parser.py`) have their signatures here, so that their own modules need no cyclopts.
"""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Group, Parameter
from cyclopts.exceptions import CycloptsError, UnusedCliTokensError

from toolhall.cli.command_table import EPILOGUE, EXIT_CODES, SECTIONS, SUMMARY, Command, CommandGroup
from toolhall.cli.entry import version_text
from toolhall.cli.errors import UsageError
from toolhall.cli.options import ServeOptions
from toolhall.cli.parameters import CallParameters, InspectParameters, ListToolsParameters

_SERVE_DEFAULTS = ServeOptions()
_LIST_DEFAULTS = ListToolsParameters()
_INSPECT_DEFAULTS = InspectParameters()
_CALL_DEFAULTS = CallParameters()


def serve(*targets: str, options: Annotated[ServeOptions, Parameter(name="*")] = _SERVE_DEFAULTS) -> int:
    """Serve tools over HTTP, or over standard input and output.

    Parameters
    ----------
    targets
        file.py, file.py:object, package.module, a folder, definitions.json, or a file of an MCP client that lists
        servers. When left out, the upstreams that were added or are in the settings; the example toolkit if there are
        none.
    """
    from toolhall.cli.serve import run_serve  # lazy: the settings, for serving only

    return run_serve(targets, options)


def list_tools(
    target: str | None = None, /, *, options: Annotated[ListToolsParameters, Parameter(name="*")] = _LIST_DEFAULTS
) -> None:
    """List the tools, resources and prompts of a target or of a running server.

    Parameters
    ----------
    target
        file.py, file.py:object, package.module, a folder or definitions.json; the example toolkit when left out.
    """
    from toolhall.cli.commands.list import run_list  # lazy: the settings, which a help page does not need

    run_list(target, options)


def inspect(*words: str, options: Annotated[InspectParameters, Parameter(name="*")] = _INSPECT_DEFAULTS) -> None:
    """Show everything about one tool, resource or prompt, or about all of them briefly.

    Parameters
    ----------
    words
        [TARGET] [NAME]: where they are (the example toolkit when left out), and the name, id or URI of one.
    """
    from toolhall.cli.commands.list import run_inspect  # lazy: the settings, which a help page does not need

    run_inspect(words, options)


def call(tool: str, /, *words: str, options: Annotated[CallParameters, Parameter(name="*")] = _CALL_DEFAULTS) -> int:
    """Call one tool of a target or of a running server.

    Parameters
    ----------
    tool
        Its published name or its id.
    words
        key=value for each argument (key:=JSON where the value must be read as JSON), and at the end the TARGET:
        file.py, file.py:object, package.module or a folder; the example toolkit when left out.
    """
    from toolhall.cli.commands.call import run_call  # lazy: the settings, which a help page does not need

    return run_call(tool, words, options)


def _build_app() -> App:
    program = App(
        name="toolhall",
        help=SUMMARY,
        help_epilogue=EPILOGUE,
        help_format="plaintext",
        version=version_text,
        suppress_keyboard_interrupt=False,
        # Flags have no `--no-...` form, and the default "off" is not shown.
        default_parameter=Parameter(negative="", show_default=lambda value: value or None),
    )
    for number, section in enumerate(SECTIONS):
        group = Group(section.title, help=f"Example: toolhall {section.example}", sort_key=number)
        for entry in section.entries:
            if isinstance(entry, CommandGroup):
                program.command(_build_group(entry, group))
            else:
                _add_command(program, entry, entry.example, group)
    program["--help"].group = program["--version"].group = Group("Options", sort_key=len(SECTIONS))
    return program


def _build_group(entry: CommandGroup, group: Group) -> App:
    epilogue = _epilogue(f"{entry.name} {entry.example}")
    inner = App(name=entry.name, group=group, help=entry.help_text, help_epilogue=epilogue)
    for command in entry.commands:
        _add_command(inner, command, f"{entry.name} {command.example}")
    return inner


def _add_command(parent: App, command: Command, example: str, group: Group | None = None) -> None:
    parent.command(
        f"toolhall.cli.{command.function}",
        name=command.name,
        group=group,
        help=command.help_text,
        help_epilogue=_epilogue(example),
    )


def _epilogue(example: str) -> str:
    return f"Example: toolhall {example}\n\n{EXIT_CODES}"


app = _build_app()


def run_app(words: Sequence[str]) -> int:
    """Parse the words, run the command they name, and return its exit code."""
    try:
        code = app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        command = "".join(f"{word} " for word in error.command_chain or ())
        usage_error = UsageError(f"{_error_text(error)} 'toolhall {command}--help'")
        if _serves_stdio(words):
            from toolhall.cli.serve import reply_startup_error  # lazy: only where an MCP client waits

            reply_startup_error(usage_error.message)
        raise usage_error from None
    return code if isinstance(code, int) else 0


def _serves_stdio(words: Sequence[str]) -> bool:
    """Whether an MCP client probably waits for a response on stdout; the command line itself cannot be parsed."""
    other = any(word.partition("=")[0] in ("--dialect", "--join") for word in words)
    return words[:1] == ["serve"] and "--stdio" in words and not other


def _error_text(error: CycloptsError) -> str:
    """The error in one sentence, up to the word `see`."""
    match error:
        case UnusedCliTokensError(unused_tokens=[*words]):
            return f"too many words: {' '.join(words)}; see"
        case _:
            text = str(error).replace(", ...", " and more").rstrip(". ")
            return f"{text} See" if text.endswith("?") else f"{text}; see"
