"""Makes the hall that a plan describes, and brings back what was registered with it."""

import asyncio
import gc

from toolhall.app import Toolhall
from toolhall.cli.failure import EXIT_CONFIG, CommandFailed
from toolhall.cli.opening import open_hall, tell_undocumented, tell_unmatched_levels
from toolhall.cli.progress import counted
from toolhall.cli.screen import note, visible
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.privacy import forget_secrets
from toolhall.cli.waiting import waiting
from toolhall.dialects.findings import BadDocument
from toolhall.pipeline.verify import Approver
from toolhall.registrar.terms import Terms, over_stdio
from toolhall.stores.base import StoreFailed
from toolhall.stores.lock import Family

_SEVERAL = (
    "several processes serve this hall, and while they do its tools stay as they are (keys, grants and approvals can be"
    " changed); to change its tools, serve it with --workers 1"
)


def prepare(plan: Plan, approver: Approver | None = None) -> Toolhall:
    """The hall, with the author's own settings where a target brings its own Toolhall."""
    gc.disable()  # what is made now stays, and with thousands of tools the collector would look through it many times
    try:
        return _prepared(plan, approver)
    finally:
        gc.enable()


def _prepared(plan: Plan, approver: Approver | None) -> Toolhall:
    hall = open_hall(plan.targets, plan.config, approver, plan.overrides)
    forget_secrets()
    if not plan.sibling:  # the first of several processes has said it
        tell_undocumented(hall)
    try:
        if plan.workers > 1 and hall.config.data is None:
            raise CommandFailed(
                "several workers share keys, grants and approvals by a data folder, and the target's Toolhall has none:"
                " name one with --data, set data in its Config(...), or use --workers 1",
                EXIT_CONFIG,
            )
        _open(hall, _terms(plan, hall))
        if not plan.sibling:
            tell_unmatched_levels(hall)
        if not plan.stdio:  # whoever starts a process and speaks to it is its user
            _refuse_unlockable(hall)
    except BaseException:
        hall.close()
        raise
    return hall


def _refuse_unlockable(hall: Toolhall) -> None:
    """Where every request needs a credential and none can be valid, nobody could ever be served."""
    if hall.config.profile == "server" and not hall.guard.door.takes_credentials():
        folder = hall.config.data or "DIR"
        raise CommandFailed(
            f"profile 'server' needs a credential and there is none: make one with 'toolhall key create NAME --data"
            f" {folder}', or set issuers or oxp_secret in toolhall.toml",
            EXIT_CONFIG,
        )


def _terms(plan: Plan, hall: Toolhall) -> Terms:
    """How the folder is shared; in one that nobody named, code is not held to its versions.

    Several servers of one project share the folder that nobody named, and all but the first leave its tools alone. A
    folder that was named has one server, because whoever named it expects to change its tools there.
    """
    unnamed = plan.unnamed and hall.config.data == plan.config.data
    if plan.stdio:
        return over_stdio(plan.dialect, hold=not unnamed)
    if plan.workers == 1:
        return Terms(family="peer", beside=unnamed, hold=not unnamed)
    family: Family = "sibling" if plan.sibling else "first"
    return Terms(family=family, beside=unnamed, hold=not unnamed, frozen=_SEVERAL)


def _open(hall: Toolhall, terms: Terms) -> None:
    try:
        with waiting("Opening the registry"):
            asyncio.run(hall.open(terms, enter=False))  # toolkits belong to the loop that serves
    except StoreFailed as failed:
        raise CommandFailed(str(failed)) from None
    except BadDocument as bad:
        for finding in bad.findings[1:]:
            note(f"  {visible(str(finding))}")
        raise CommandFailed(f"this may not be served: {visible(bad.findings[0].fix)}") from None
    waiting_ones = [kept.id for kept in hall.registrar.known if kept.state == "quarantined"]
    if waiting_ones:
        note(
            f"{counted(len(waiting_ones), 'tool')} quarantined, such as {visible(waiting_ones[0])}: "
            "'toolhall tool show ID', then 'toolhall tool activate ID'"
        )
