"""The type of a JSON value, and the one encoder that every layer shares."""

from typing import Any, TypeAlias

import msgspec

# Any is deliberate: JSON from outside has no shape until a schema has been checked.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Json]

encode = msgspec.json.Encoder().encode
