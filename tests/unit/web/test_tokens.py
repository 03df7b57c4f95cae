"""The design tokens: one source for the console and the pages, and enough contrast in light and dark."""

import re
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "console/src/style/tokens.css"
COPY = ROOT / "src/toolhall/web/assets/tokens.css"
PAGE = ROOT / "src/toolhall/web/assets/page.css"
COLOUR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
SCHEMES = ("light", "dark")
GROUNDS = ("canvas", "surface", "raised", "sunken", "hover")
MEANINGS = ("ok", "refused", "failed", "person", "busy")
TEXTS = [
    *product(("ink", "ink-2", "ink-3", "accent", "accent-hover", *MEANINGS), GROUNDS),
    *((meaning, f"{meaning}-soft") for meaning in ("accent", *MEANINGS)),
    *product(("ink", "ink-2", "ink-3"), ("accent-soft",)),
    ("ink", "refused-soft"),
    ("on-accent", "accent"),
    ("on-accent", "accent-hover"),
]
GRAPHICS = [
    *product(("line-strong", *(f"{meaning}-fill" for meaning in MEANINGS)), ("canvas", "surface", "sunken")),
    ("refused-fill", "refused-soft"),  # the frame of a mark
    *product(("accent",), GROUNDS),  # the outline of what has the focus
]


def tokens() -> dict[str, tuple[str, str]]:
    return {name: (light, dark) for name, light, dark in COLOUR.findall(SOURCE.read_text())}


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_pages_have_the_tokens_of_the_console() -> None:
    fix = "copy console/src/style/tokens.css to src/toolhall/web/assets/tokens.css"
    assert COPY.read_text() == SOURCE.read_text(), fix


def test_page_styles_use_tokens_that_exist_and_no_colours_of_their_own() -> None:
    style = PAGE.read_text()
    defined = set(re.findall(r"--([\w-]+):", SOURCE.read_text()))
    assert not set(re.findall(r"var\(--([\w-]+)\)", style)) - defined
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|rgb|hsl", style)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("pairs", "least"), [(TEXTS, 4.5), (GRAPHICS, 3.0)], ids=["text", "graphics"])
def test_tokens_have_contrast(pairs: list[tuple[str, str]], least: float, scheme: str) -> None:
    colours = {name: values[SCHEMES.index(scheme)] for name, values in tokens().items()}
    ratios = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs}
    assert not {pair: ratio for pair, ratio in ratios.items() if ratio < least}
