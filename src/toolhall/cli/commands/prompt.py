"""`toolhall prompt`: prints the messages of a prompt, filled in with arguments."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.arguments import read_texts, split_words
from toolhall.cli.block_output import print_blocks
from toolhall.cli.call_ui import TerminalClient
from toolhall.cli.clients.base import ToolClient, open_tool_client
from toolhall.cli.clients.descriptions import (
    PromptDescription,
    PromptMessage,
    find_described,
    nearest,
    plain_result,
    read_messages,
)
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.logs import start_logging
from toolhall.cli.output import BOLD, print_json, styled, visible
from toolhall.cli.parameters import GetPromptParameters
from toolhall.cli.progress import show_spinner
from toolhall.cli.settings import ensure_data_folder, read_config_with_data

_DEFAULTS = GetPromptParameters()


def prompt(name: str, /, *words: str, options: Annotated[GetPromptParameters, Parameter(name="*")] = _DEFAULTS) -> None:
    """Get the messages of a prompt of a target or of a running server.

    One message is printed as it is, several with who says each.

    Parameters
    ----------
    name
        Its published name or its id.
    words
        key=value for each argument, and at the end the TARGET:
        file.py, file.py:object, package.module or a folder; the example toolkit when left out.
    """
    start_logging(None)
    if options.timeout <= 0:
        raise UsageError("--timeout must be more than 0 seconds")
    pairs, target = split_words(words, options, "a prompt")
    arguments = read_texts(pairs)
    named = options.target or target
    config = read_config_with_data(targets=[named] if named else [], data=str(options.data) if options.data else None)
    if not options.url:
        ensure_data_folder(config)
    with open_tool_client(options, target, config) as source:
        found = _require_prompt(source, name)
        _check_arguments(found, arguments)
        with show_spinner(f"Getting {found.name}") as spinner:
            ui = TerminalClient(spinner)
            try:
                result = source.get_prompt(found.name, arguments, ui, options.timeout)
            finally:
                ui.close()
    messages = read_messages(result)
    if options.json:
        print_json(plain_result(result))
    else:
        _print_messages(messages)


def _require_prompt(source: ToolClient, name: str) -> PromptDescription:
    """The prompt with this name or id; CommandError with the nearest name."""
    prompts = source.prompts()
    found = find_described(prompts, name)
    if found:
        return found
    near = nearest([each.name for each in prompts], name)
    hint = f"did you mean {near!r}?" if near else "see the names with 'toolhall list --kind prompt'"
    raise CommandError(f"there is no prompt {visible(name)!r}; {visible(hint)}")


def _check_arguments(found: PromptDescription, arguments: Mapping[str, str]) -> None:
    """Raise UsageError for an argument that the prompt does not have, or that is missing."""
    takes = ", ".join(found.names) or "none"
    for name in arguments:
        if name not in found.names:
            near = nearest(found.names, name)
            raise UsageError(
                f"{found.name} takes no argument {name!r}; {f'did you mean {near!r}?' if near else f'it takes {takes}'}"
            )
    missing = [name for name in found.required if name not in arguments]
    if missing:
        raise UsageError(f"{found.name} needs {', '.join(missing)}; write {missing[0]}=... for it")


def _print_messages(messages: Sequence[PromptMessage]) -> None:
    for message in messages:
        if len(messages) > 1:
            print(styled(f"{message.role}:", BOLD, sys.stdout))
        print_blocks([message.content])
