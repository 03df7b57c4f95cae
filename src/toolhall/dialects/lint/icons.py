"""Which icons a client may be shown: addresses it can fetch in private, and pictures that hold no script."""

import re
from collections.abc import Iterator

from toolhall.dialects.lint.rule import Spot, Subject, ToolRule
from toolhall.model.tool import Icon

# Who reads an address skips blanks and control characters: `data:image/s<tab>vg+xml` is an SVG. None may stand here.
_SAFE = re.compile(
    r"(?:https://|data:image/(?![a-z0-9.+-]*(?:svg|xml))[a-z0-9.+-]+[;,])[^\s\x00-\x20\x7f-\x9f]+", re.IGNORECASE
)
_SCRIPTED = re.compile(r"svg|xml", re.IGNORECASE)


def is_safe(icon: Icon) -> bool:
    """Whether it is fetched over https: or is a picture in a data: URI, and says nowhere that it is an SVG."""
    return _SAFE.fullmatch(icon.src) is not None and not _SCRIPTED.search(icon.mime_type or "")


def _unsafe(subject: Subject) -> Iterator[Spot]:
    for index, icon in enumerate(subject.tool.icons):
        if not is_safe(icon):
            yield Spot(f"/icons/{index}/src")


RULES = (
    ToolRule(
        id="tool/icon-unsafe",
        says="An icon is neither https: nor a picture in a data: URI, or is an SVG that could hold scripts.",
        fix="use an https: address, or a PNG, JPEG or WebP as a data: URI; a hall serves the tool without this icon",
        check=_unsafe,
    ),
)
