"""How large the schema of a strict function may be."""

from collections.abc import Iterator

from toolhall.model.json import JsonObject

# OpenAI, structured outputs, supported schemas: limits on the total size of a schema.
MOST_MEMBERS = 5_000
MOST_LEVELS = 10
MOST_VALUES = 1_000
MOST_CHARACTERS = 120_000
LONG_LIST = 250
MOST_IN_LONG_LIST = 15_000


def too_large(schema: JsonObject) -> Iterator[str]:
    """What is too large, with the limit."""
    sizes = _Sizes()
    sizes.add(schema, 0)
    if sizes.members > MOST_MEMBERS:
        yield f"there are {sizes.members} members; strict mode takes {MOST_MEMBERS}"
    if sizes.levels > MOST_LEVELS:
        yield f"objects are nested {sizes.levels} levels deep; strict mode takes {MOST_LEVELS}"
    if sizes.values > MOST_VALUES:
        yield f"{sizes.values} values are listed; strict mode takes {MOST_VALUES}"
    if sizes.characters > MOST_CHARACTERS:
        yield f"names and values have {sizes.characters} characters; strict mode takes {MOST_CHARACTERS}"
    if sizes.long_list > MOST_IN_LONG_LIST:
        yield f"a long list of values has {sizes.long_list} characters; strict mode takes {MOST_IN_LONG_LIST}"


class _Sizes:
    def __init__(self) -> None:
        self.members = self.levels = self.values = self.characters = self.long_list = 0

    def add(self, schema: JsonObject, level: int) -> None:
        """Count a schema that stands inside so many objects."""
        members, defined, values = (schema.get(key, {}) for key in ("properties", "$defs", "enum"))
        written = sum(len(value) for value in values if isinstance(value, str))
        level += schema.get("type") == "object"
        self.members += len(members)
        self.levels = max(self.levels, level)
        self.values += len(values)
        self.characters += written + sum(map(len, members)) + sum(map(len, defined))
        if len(values) > LONG_LIST:
            self.long_list = max(self.long_list, written)
        for part in defined.values():
            self.add(part, 0)
        for part in (*members.values(), *schema.get("anyOf", ())):
            self.add(part, level)
        if "items" in schema:
            self.add(schema["items"], level)
