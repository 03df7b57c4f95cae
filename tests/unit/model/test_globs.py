"""Globs over tool ids."""

import pytest

from toolhall.model.names import matches_any


@pytest.mark.parametrize(
    ("globs", "meant"),
    [
        (("*",), True),
        (("Weather.*",), True),
        (("Weather.Get@*",), True),
        (("Weather.Get",), True),
        (("Weather.Get@1.2.0",), True),
        (("Weather.Get@1.*",), True),
        (("Weather.Get@2.*",), False),
        (("Weather.G",), False),
        (("weather.*",), False),
        (("Calendar.*", "Weather.?et"), True),
        (("Calendar.*",), False),
        ((), False),
    ],
)
def test_what_is_meant(globs: tuple[str, ...], meant: bool) -> None:
    assert matches_any(globs, "Weather.Get@1.2.0") is meant
