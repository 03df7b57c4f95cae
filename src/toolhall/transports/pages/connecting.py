"""The pages by which accounts are linked, put together."""

from collections.abc import Callable

from toolhall.accounts.broker import Broker
from toolhall.accounts.flow import CALLBACK
from toolhall.accounts.links import PATH
from toolhall.pipeline.manage import Manage
from toolhall.transports.http import Methods
from toolhall.transports.pages.connect import ConnectPage
from toolhall.transports.pages.connect_callback import CallbackPage
from toolhall.transports.pages.leaving import LinkCookies
from toolhall.transports.pages.linking import Linking
from toolhall.transports.pages.place import Place
from toolhall.transports.pages.visiting import Visiting


def link_pages(
    broker: Broker, manage: Manage, visiting: Visiting, place: Place, clock: Callable[[], float]
) -> dict[str, Methods]:
    """The page of every link, and where providers lead back to: all to one place, or each to its own."""
    linking, cookies = Linking(broker, manage), LinkCookies(place)
    connect, callback = ConnectPage(linking, visiting, place, clock), CallbackPage(linking, cookies, place)
    back: Methods = {"GET": callback.get}
    return {PATH: {"GET": connect.get, "POST": connect.post}, CALLBACK: back, f"{CALLBACK}/": back}
