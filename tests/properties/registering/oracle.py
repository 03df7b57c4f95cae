"""What registration promises, in plain dictionaries: who is in which state, who is served, what is withheld as what.

It knows the rules as people are told them, and nothing of how the registrar keeps them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from tests.properties.registering.documents import Draft, Recipe, look


class RegistrationRefused(Exception):
    """The change is refused and nothing changed; `why` holds the reasons, any of which the service may give."""

    def __init__(self, *why: str) -> None:
        self.why = frozenset(why)
        super().__init__(", ".join(sorted(why)))


@dataclass(frozen=True)
class Row:
    """One version of one tool."""

    recipe: Recipe
    state: str
    from_code: bool = False
    deprecated: bool = False
    sunset: date | None = None
    successor: str | None = None


@dataclass
class Oracle:
    """The state that the registration service must have."""

    today: date
    rows: dict[str, Row] = field(default_factory=dict)  # all that is remembered, by tool id
    code: dict[str, Recipe] = field(default_factory=dict)  # the operator's own tools that are there now
    history: dict[str, list[str]] = field(default_factory=dict)
    crowded_out: set[str] = field(default_factory=set)  # active, but another tool is served under a name like it

    # --- what can be seen ---------------------------------------------------------------------------------------------

    @property
    def served(self) -> set[str]:
        return {each for each in self.rows if self._may_be_served(each)} - self.crowded_out

    @property
    def withheld(self) -> dict[str, str]:
        """Everything else, with the reason."""
        return {each: self._reason(row) for each, row in self.rows.items() if each not in self.served}

    @property
    def newest(self) -> dict[str, str]:
        """By `Toolkit.tool`, the version that a caller gets who asks for none."""
        found: dict[str, str] = {}
        for each in sorted(self.served, key=order):
            found[key_of(each)] = each
        return found

    @property
    def known(self) -> set[str]:
        return {*self.rows, *self.code}

    # --- what can be done ---------------------------------------------------------------------------------------------

    def register(self, draft: Draft) -> None:
        """From outside: nobody is served it yet."""
        why = [*self._taken(draft), *self._refused(draft, list(draft.recipes))]
        if why:
            raise RegistrationRefused(*why)
        for tool_id, recipe in draft.recipes.items():
            self._put(tool_id, Row(recipe, "quarantined"), "registered")

    def activate(self, name: str, *, seen: bool) -> None:
        tool_id = self.find(name)
        row = self._row(tool_id)
        why = ["unseen"] if row.state == "quarantined" and not seen else []
        why += ["already"] if row.state == "active" and not row.deprecated else []
        if why or self._twins(tool_id):
            raise RegistrationRefused(*why, *(["twin"] if self._twins(tool_id) else []))
        self._put(tool_id, replace(row, state="active", deprecated=False, sunset=None, successor=None), "activated")

    def deactivate(self, name: str) -> None:
        """What nobody has looked at yet stays in quarantine: it is not served anyway."""
        tool_id = self.find(name)
        row = self._row(tool_id)
        if row.state != "active":
            raise RegistrationRefused("already")
        self._put(tool_id, replace(row, state="inactive"), "deactivated")

    def deprecate(self, name: str, sunset: date | None, successor: str | None) -> None:
        tool_id = self.find(name)
        if successor is not None and self.find(successor) == tool_id:
            raise RegistrationRefused("itself")
        row = self._row(tool_id)
        self._put(tool_id, replace(row, deprecated=True, sunset=sunset, successor=successor), "deprecated")

    def roll_back(self, name: str) -> None:
        """The newest active version and those beside it that are newer go; the one before that comes back."""
        key = key_of(self.find(name))
        versions = sorted((each for each in self.known if key_of(each) == key), key=order)
        active = [each for each in versions if self._row(each).state == "active"]
        before = [
            each
            for each in (versions[: versions.index(active[-1])] if active else [])
            if self._row(each).state in ("active", "inactive") and self._is_brought(each)
        ]
        if not before:
            raise RegistrationRefused("nothing before")
        if self._twins(before[-1]):
            raise RegistrationRefused("twin")
        for each in active:
            if order(each) > order(before[-1]):
                self._put(each, replace(self._row(each), state="inactive"), "rolled back")
        back = replace(self._row(before[-1]), state="active", deprecated=False, sunset=None, successor=None)
        self._put(before[-1], back, "rolled back")

    def remove(self, name: str) -> None:
        tool_id = self.find(name)
        if tool_id in self.code:
            raise RegistrationRefused("code")
        del self.rows[tool_id]
        self.crowded_out.discard(tool_id)
        self._happened(tool_id, "removed")

    def add_code_tool(self, tool_id: str, recipe: Recipe) -> None:
        """The operator's own code, while the hall runs: held to its version, and remembered."""
        row = self.rows.get(tool_id)
        known = row is not None and row.from_code
        why = ["twin"] if self._twins(tool_id) and not known else []
        if promises(tool_id) and (row is None or not known or row.recipe != recipe):
            why += ["other content"] if known else []
            why += [] if self._rises({tool_id: recipe}, whole=False, own=True) else ["small rise"]
        if why:
            raise RegistrationRefused(*why)
        self.code[tool_id] = recipe
        self._remember(tool_id)
        self._look_again(self._kit(tool_id))

    def remove_code_tool(self, tool_id: str) -> None:
        del self.code[tool_id]
        self.crowded_out.discard(tool_id)
        self._look_again(self._kit(tool_id))

    def restart(self, code: Mapping[str, Recipe], files: Iterable[Draft]) -> None:
        """With this code and these files; code comes first, and files one after the other."""
        self.code, self.crowded_out = dict(code), set()
        self._hold()
        for draft in files:
            self._enroll(draft)
        self._look_again(sorted(self.rows, key=lambda each: each not in self.code))

    def pass_days(self, to: date) -> None:
        self.today = to

    def find(self, name: str) -> str:
        """By id, or by `Toolkit.tool`, which means its newest version."""
        fitting = sorted((each for each in self.known if name in (each, key_of(each))), key=order)
        if not fitting:
            raise RegistrationRefused("unknown")
        return fitting[-1]

    # --- the rules ----------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Code of a release must not change under its version, nor break more than its version says."""
        changed = [each for each in self.code if self._is_to_be_remembered(each)]
        for each in changed:
            if each in self.rows and self.rows[each].from_code and promises(each):
                raise RegistrationRefused("other content")
        for version in {version_of(each) for each in changed if promises(each)}:
            together = {each: recipe for each, recipe in self.code.items() if version_of(each) == version}
            if not self._rises(together, whole=True, own=True):
                raise RegistrationRefused("small rise")
        for each in changed:
            self._remember(each)

    def _is_to_be_remembered(self, tool_id: str) -> bool:
        row = self.rows.get(tool_id)
        return row is None or not row.from_code or row.recipe != self.code[tool_id]

    def _remember(self, tool_id: str) -> None:
        """Code takes the place of what came from outside; what somebody did with the same code before stays done."""
        if not self._is_to_be_remembered(tool_id):
            return
        row, recipe = self.rows.get(tool_id), self.code[tool_id]
        kept = replace(row, recipe=recipe) if row and row.from_code else Row(recipe, "active", from_code=True)
        self._put(tool_id, kept, "registered" if row is None else "replaced")

    def _kit(self, tool_id: str) -> list[str]:
        """All that is remembered of its toolkit, code first."""
        kit = tool_id.partition(".")[0]
        return sorted(
            (each for each in self.rows if each.startswith(f"{kit}.")), key=lambda each: each not in self.code
        )

    def _enroll(self, draft: Draft) -> None:
        """What a file says; what it says otherwise under the same version must be looked at again."""
        new = [each for each in draft.recipes if each not in self.rows]
        old = [each for each, recipe in draft.recipes.items() if each in self.rows and self._is_new(each, recipe)]
        why = self._refused(draft, new) if new else []
        if why:
            raise RegistrationRefused(*why)
        for each in (*new, *old):
            self._put(each, Row(draft.recipes[each], "quarantined"), "registered" if each in new else "quarantined")

    def _taken(self, draft: Draft) -> Iterable[str]:
        for tool_id, recipe in draft.recipes.items():
            if tool_id in self.rows:
                # A document cannot say all that code says, so it always says something else.
                other = self._is_new(tool_id, recipe) or self.rows[tool_id].from_code
                yield "other content" if other else "taken"

    def _refused(self, draft: Draft, new: list[str]) -> list[str]:
        recipes = {each: recipe for each, recipe in draft.recipes.items() if draft.whole or each in new}
        keys = {key_of(each) for each in self.rows if not self.rows[each].from_code}
        alike = any(look(key) == look(key_of(each)) and key != key_of(each) for key in keys for each in recipes)
        why = ["name/confusable"] if alike else []
        why += ["code"] if draft.toolkit in {each.partition(".")[0] for each in self.code} else []
        return why + ([] if self._rises(recipes, whole=draft.whole) else ["small rise"])

    def _rises(self, new: Mapping[str, Recipe], *, whole: bool, own: bool = False) -> bool:
        """Whether versions say what changed since the release before, and until the one after; others promise nothing.

        Code is bound by code alone.
        """
        bound = [each for each in self.rows if self.rows[each].from_code or not own]
        if whole:
            kits = {each.partition(".")[0] for each in new}
            return self._fits_between(new, [each for each in bound if each.partition(".")[0] in kits])
        return all(
            self._fits_between({each: new[each]}, [other for other in bound if key_of(other) == key_of(each)])
            for each in new
        )

    def _fits_between(self, new: Mapping[str, Recipe], known: list[str]) -> bool:
        first = next(iter(new))
        mine = {key_of(each): recipe for each, recipe in new.items()}
        releases = [each for each in known if is_release(each)]
        older = max((each for each in releases if order(each) < order(first)), key=order, default=None)
        newer = min((each for each in releases if order(each) > order(first)), key=order, default=None)
        fits = older is None or enough(worst(self._at(older, known), mine), version_of(older), version_of(first))
        if newer is not None and is_release(first):
            fits = fits and enough(worst(mine, self._at(newer, known)), version_of(first), version_of(newer))
        return fits

    def _at(self, tool_id: str, known: list[str]) -> dict[str, Recipe]:
        """What is known in the version of this tool."""
        return {key_of(each): self.rows[each].recipe for each in known if version_of(each) == version_of(tool_id)}

    def _is_new(self, tool_id: str, recipe: Recipe) -> bool:
        return tool_id not in self.rows or self.rows[tool_id].recipe != recipe

    def _row(self, tool_id: str) -> Row:
        return self.rows[tool_id] if tool_id in self.rows else Row(self.code[tool_id], "active", from_code=True)

    def _is_brought(self, tool_id: str) -> bool:
        """Of code what is there; and nothing else beside code in its toolkit."""
        kits = {each.partition(".")[0] for each in self.code}
        return tool_id in self.code if self._row(tool_id).from_code else tool_id.partition(".")[0] not in kits

    def _is_over(self, row: Row) -> bool:
        return row.sunset is not None and row.sunset <= self.today

    def _may_be_served(self, tool_id: str) -> bool:
        row = self.rows[tool_id]
        return row.state == "active" and not self._is_over(row) and self._is_brought(tool_id)

    def _reason(self, row: Row) -> str:
        if row.state != "active":
            return row.state
        return "retired" if self._is_over(row) else "not served"

    def _twins(self, tool_id: str) -> bool:
        """Whether another tool is served that people would take for this one."""
        key = key_of(tool_id)
        return any(look(key_of(each)) == look(key) and key_of(each) != key for each in self.served)

    def _put(self, tool_id: str, row: Row, what: str) -> None:
        self.rows[tool_id] = row
        self._happened(tool_id, what)
        self._look_again([tool_id])

    def _look_again(self, ids: Iterable[str]) -> None:
        """Who comes second under a name like another's is left out, until somebody changes something about it."""
        self.crowded_out.update(ids := [each for each in ids if each in self.rows])
        for each in ids:
            if self._may_be_served(each) and not self._twins(each):
                self.crowded_out.discard(each)

    def _happened(self, tool_id: str, what: str) -> None:
        self.history.setdefault(tool_id, []).append(what)


def key_of(tool_id: str) -> str:
    return tool_id.partition("@")[0]


def version_of(tool_id: str) -> str:
    return tool_id.partition("@")[2]


def is_release(tool_id: str) -> bool:
    return "-" not in version_of(tool_id)


promises = is_release


def order(tool_id: str) -> Any:
    """Newer is more; every pre-release comes before every release."""
    return is_release(tool_id), _numbers(version_of(tool_id))


def worst(old: Mapping[str, Recipe], new: Mapping[str, Recipe]) -> int:
    """The largest change: 0 none, 1 fix, 2 feature, 3 breaking."""
    gone = 3 if old.keys() - new.keys() else 0
    more = 2 if new.keys() - old.keys() else 0
    return max(gone, more, *(_change(old[key], new[key]) for key in old.keys() & new.keys()), 0)


def enough(change: int, old: str, new: str) -> bool:
    """Whether a version rises as the change demands; before 1.0.0 everything counts one place less."""
    before, after = _numbers(old), _numbers(new)
    rise = next((3 - place for place in range(3) if before[place] != after[place]), 0)
    demanded = max(1, change - 1) if change and before[0] == 0 else change
    return rise >= demanded


def _change(old: Recipe, new: Recipe) -> int:
    if old.demands != new.demands or new.offers < old.offers:
        return 3
    return 2 if new.offers > old.offers else int(old.words != new.words)


def _numbers(version: str) -> tuple[int, int, int]:
    major, minor, patch = map(int, version.partition("-")[0].split("."))
    return major, minor, patch
