"""What became of documents on their way to another dialect."""

import msgspec

from toolhall.dialects.catalog import Loss
from toolhall.dialects.findings import BadDocument
from toolhall.model.json import JsonObject


class Converted(msgspec.Struct, frozen=True):
    """What became of one or more documents; `index` is the first one's place in the input."""

    index: int
    documents: list[JsonObject]
    losses: list[Loss]
    refused: BadDocument | None = None  # why one that had been held back makes no document
