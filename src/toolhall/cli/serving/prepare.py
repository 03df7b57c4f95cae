"""Makes the hall that a plan describes."""

from toolhall.app import Toolhall
from toolhall.cli.failure import WrongUsage
from toolhall.cli.opening import open_hall
from toolhall.cli.serving.plan import Plan
from toolhall.pipeline.verify import Approver


def prepare(plan: Plan, approver: Approver | None = None) -> Toolhall:
    """The hall, with the author's own settings where a target brings its own Toolhall."""
    hall = open_hall(plan.targets, plan.config, approver)
    if hall.config is not plan.config and plan.stated:
        hall.close()
        raise WrongUsage(
            f"the target has a Toolhall of its own, which {plan.stated[0]} cannot change; set it in its Config(...)"
        )
    return hall
