"""What a hall needs to ask people: who may decide, how they prove it, and where the pages are."""

from collections.abc import Callable

from toolhall.pipeline.approvals import PATH as APPROVE
from toolhall.pipeline.approvals import Approvals
from toolhall.pipeline.deciding import Deciding
from toolhall.pipeline.factors import Factors
from toolhall.stores.approvals.memory import MemoryApprovals
from toolhall.stores.bundle import Stores
from toolhall.stores.derived import derived
from toolhall.stores.factors.memory import MemoryFactors
from toolhall.stores.seal import Seal
from toolhall.transports.api.approvals import ApprovalsApi
from toolhall.transports.api.factors import FactorsApi
from toolhall.transports.api.managed import Managed
from toolhall.transports.http import Methods
from toolhall.transports.identity import Identity
from toolhall.transports.pages.approve import ApprovePage, Parts
from toolhall.transports.pages.enroll import PATH as ENROLL
from toolhall.transports.pages.enroll import EnrollPage
from toolhall.transports.pages.passkeys import Passkeys
from toolhall.transports.pages.place import Place
from toolhall.transports.pages.sessions import Sessions
from toolhall.transports.pages.visiting import Visiting
from toolhall.transports.shield import Shield

PAGES, SESSIONS, FACTORS = "toolhall pages", "toolhall page sessions", "toolhall factors"


class People:
    """The way to people; until it is opened, what they say is kept in memory."""

    def __init__(self, name: str, place: Place, root: bytes, clock: Callable[[], float]) -> None:
        self.place = place
        self.approvals = Approvals(MemoryApprovals(clock), lambda: place.url)
        self.factors = Factors(MemoryFactors(clock), Seal(derived(root, FACTORS)), clock)
        self._name = name
        self._key = derived(root, PAGES)
        self.sessions = Sessions(Seal(derived(root, SESSIONS)), self._key, place, clock)

    def open(self, stores: Stores) -> None:
        """From now on, keep it there."""
        self.approvals.store, self.factors.store = stores.approvals, stores.factors

    def endpoints(self, managed: Managed, shield: Shield, identity: Identity) -> dict[str, Methods]:
        """The pages, and what the command line uses in their place."""
        deciding = Deciding(self.approvals, managed.hall.manage)
        passkeys = Passkeys(self.factors, self.place, self._key, self._name)
        parts = Parts(deciding, self.factors, passkeys, Visiting(self.sessions, identity), self.place)
        approve, enroll = ApprovePage(parts), EnrollPage(parts, managed.hall.manage)
        return {
            APPROVE: {"GET": approve.get, "POST": approve.post},
            ENROLL: {"GET": enroll.get, "POST": enroll.post},
            **ApprovalsApi(deciding, self.factors, shield).endpoints(),
            **FactorsApi(managed, self.factors, shield, self._name, self._link).endpoints(),
        }

    def _link(self, word: str) -> str:
        return f"{self.place.url}{ENROLL}{word}"
