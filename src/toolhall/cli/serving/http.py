"""Serves over HTTP in this process."""

from toolhall.cli.screen import strays_aside
from toolhall.cli.serving.announce import announce_plan
from toolhall.cli.serving.listen import listen, url_of
from toolhall.cli.serving.output import redacted_output
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.prepare import prepare
from toolhall.cli.serving.server import GracefulServer
from toolhall.cli.settings import refuse_exposure
from toolhall.cli.terminal_approver import terminal_approver


def run(plan: Plan) -> int:
    """Load, bind, say where once every toolkit is entered, serve until told to stop."""
    with redacted_output(), prepare(plan, terminal_approver()) as hall:
        host = plan.host or hall.config.host
        refuse_exposure(hall.config.profile, host)
        port = hall.config.port if plan.port is None else plan.port
        with listen(host, port, hall.config.profile) as listening, strays_aside() as ours:

            def started(_: GracefulServer) -> None:
                with ours():
                    announce_plan(url_of(listening), hall.config, plan)

            GracefulServer(hall, started).run([listening])
    return 0
