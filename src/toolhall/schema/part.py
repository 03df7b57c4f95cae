"""One schema object being remade for a target."""

from toolhall.model.json import Json, JsonObject
from toolhall.schema.place import Place
from toolhall.schema.reshape import Reshaping
from toolhall.schema.sentences import sentence


class Part:
    """What the source says, what the target gets (`made`), and what goes into the description instead."""

    __slots__ = ("_said", "made", "place", "reshaping", "schema")

    def __init__(self, reshaping: Reshaping, schema: JsonObject, place: Place, made: JsonObject) -> None:
        self.reshaping = reshaping
        self.schema = schema
        self.place = place
        self.made = made
        self._said: list[str] = []

    def lose(self, keyword: str, reason: str, *, widens: bool = True, narrows: bool = False) -> None:
        """Report a keyword that the target does not get."""
        self.reshaping.lose(self.place, keyword, reason, widens=widens, narrows=narrows)

    def tell(self, keyword: str, value: Json, reason: str, *, widens: bool = True) -> None:
        """Report a keyword, and put what it says into the description, if that can be said shortly."""
        text = sentence(keyword, value)
        if text is not None:
            self._said.append(text)
            reason = f"{reason}; it is in the description"
        self.lose(keyword, reason, widens=widens)

    def shape(self, schema: Json, *parts: str) -> JsonObject:
        """A schema that this one holds, as the target wants it."""
        return self.reshaping.shape(schema, self.place.at(*parts))

    def done(self) -> JsonObject:
        """What the target gets."""
        return self.reshaping.note(self.made, self.place, self._said) if self._said else self.made
