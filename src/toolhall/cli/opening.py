"""Opens a hall for the targets of a command."""

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from toolhall.app import Toolhall
from toolhall.authoring.declaration import BadDeclaration
from toolhall.cli.failure import EXIT_CONFIG, CommandFailed, WrongUsage
from toolhall.cli.progress import counted
from toolhall.cli.screen import YELLOW, note, strays_aside, styled, visible
from toolhall.cli.targets import load_targets
from toolhall.cli.waiting import waiting
from toolhall.config import BadConfig, Config, overriding
from toolhall.model.globs import means
from toolhall.pipeline.verify import Approver
from toolhall.registrar.papers import Paper
from toolhall.registry.registry import Conflict
from toolhall.schema.bounds import BadSchema
from toolhall.transports.identity.building import BadIdentity

MOST_TOLD = 10
_NOTHING: Mapping[str, Any] = {}


def open_hall(
    targets: Sequence[str],
    config: Config,
    approver: Approver | None = None,
    overrides: Mapping[str, Any] = _NOTHING,
) -> Toolhall:
    """A hall with every tool of the targets; an author's own Toolhall is taken, and the rest added to it.

    `overrides` are the settings that the command line states: they hold for an author's own Toolhall, too.
    """
    with strays_aside(), waiting("Loading tools"):
        with overriding(overrides):
            found = load_targets(targets)
        halls = [each for each in found if isinstance(each, Toolhall)]
        if len({id(hall) for hall in halls}) > 1:
            raise WrongUsage("the targets hold more than one Toolhall object; serve one of them")
        papers = [each for each in found if isinstance(each, Paper)]
        others = [each for each in found if not isinstance(each, Toolhall | Paper)]
        try:
            if halls:
                hall = halls[0]
                hall.add(*others)
                if approver is not None:
                    hall.ask_through(approver)
            else:
                hall = Toolhall(*others, config=config, approver=approver)
            hall.propose(*papers)
        except (BadDeclaration, BadSchema, Conflict) as error:
            raise CommandFailed(str(error)) from None
        except (BadConfig, BadIdentity) as error:
            raise CommandFailed(str(error), EXIT_CONFIG) from None
        except TypeError as error:  # a Toolkit whose constructor wants arguments
            raise CommandFailed(f"{error}; serve an instance instead: file.py:NAME") from None
        return hall


def tell_undocumented(hall: Toolhall) -> None:
    """Warn the author of tools without a docstring, once for each."""
    for said in hall.undocumented[:MOST_TOLD]:
        note(f"{styled('warning:', YELLOW, sys.stderr)} {visible(said)}")
    if (more := len(hall.undocumented) - MOST_TOLD) > 0:
        note(f"{styled('warning:', YELLOW, sys.stderr)} {counted(more, 'more tool')} without a docstring")


def tell_unmatched_levels(hall: Toolhall) -> None:
    """Warn of names in the setting `levels` that no tool has: such a line raises nothing, which nobody would notice."""
    ids = {str(entry.tool.id) for entry in hall.registry.snapshot.entries} | {kept.id for kept in hall.registrar.known}
    unmatched = [glob for glob in hall.config.levels if not any(means((glob,), each) for each in ids)]
    names = sorted({each.rpartition("@")[0] for each in ids})
    for glob in unmatched[:MOST_TOLD]:
        tail = glob.partition("@")[0].casefold()
        near = [name for name in names if name.casefold().endswith(f".{tail}")] or get_close_matches(glob, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "; write it as TOOLKIT.TOOL, and * for any"
        note(f"{styled('warning:', YELLOW, sys.stderr)} {visible(f'levels: no tool here matches {glob!r}{hint}')}")
    if (more := len(unmatched) - MOST_TOLD) > 0:
        note(f"{styled('warning:', YELLOW, sys.stderr)} levels: {more} more match no tool here")
