"""Required and declared version bumps."""

from tests.tables import each_row
from toolhall.contracts.semver import (
    Bump,
    ChangeKind,
    DefinitionChange,
    declared_bump,
    is_sufficient,
    next_version,
    required_bump,
)


@each_row(
    ("kinds", "bump"),
    [([], "none"), (["fix"], "patch"), (["fix", "feature"], "minor"), (["breaking", "fix"], "major")],
)
def test_required_bump_is_that_of_largest_change(kinds: list[ChangeKind], bump: Bump) -> None:
    assert required_bump([DefinitionChange(kind, "", "") for kind in kinds]) == bump


@each_row(
    ("old", "new", "bump"),
    [
        ("1.2.3", "1.2.3", "none"),
        ("1.2.3", "1.2.4", "patch"),
        ("1.2.3", "1.3.0", "minor"),
        ("1.2.3", "2.0.0", "major"),
        ("1.9.0", "1.10.0", "minor"),
        ("2.0.0", "1.9.9", "none"),
        ("1.2.3+a", "1.2.3+b", "none"),
        ("1.2.3", "2.0.0-rc.1", "major"),
        ("2.0.0-rc.1", "2.0.0-rc.2", "patch"),
        ("2.0.0-rc.9", "2.0.0-rc.10", "patch"),
        ("2.0.0-rc.1", "2.0.0", "patch"),
        ("2.0.0", "2.0.0-rc.1", "none"),
        ("2.0.0-alpha", "2.0.0-alpha.1", "patch"),
        ("2.0.0-9", "2.0.0-alpha", "patch"),
        ("0.1.0", "0.2.0", "minor"),
        ("7", "8", "major"),
        ("7", "7.1", "minor"),
        ("20260401", "20260502", "major"),
        ("2026-04-01", "2026-04-02", "major"),
        ("2026-04-02", "2026-04-01", "none"),
        ("next", "newer", "none"),
    ],
)
def test_declared_bump_between_versions(old: str, new: str, bump: Bump) -> None:
    assert declared_bump(old, new) == bump


@each_row(
    ("demanded", "old", "new", "ok"),
    [
        ("none", "1.0.0", "1.0.0", True),
        ("patch", "1.0.0", "1.0.0", False),
        ("patch", "1.0.0", "1.0.1", True),
        ("minor", "1.0.0", "1.0.1", False),
        ("major", "1.0.0", "1.1.0", False),
        ("major", "1.0.0", "2.0.0", True),
        ("patch", "1.0.0", "2.0.0", True),
        ("major", "0.1.0", "0.1.1", False),
        ("major", "0.1.0", "0.2.0", True),
        ("minor", "0.1.0", "0.1.1", True),
        ("major", "0.0.1", "0.0.2", True),
        ("major", "0.9.0", "1.0.0", True),
        ("major", "2.0.0-rc.1", "2.0.0-rc.2", True),
        ("major", "2.0.0-rc.2", "2.0.0-rc.1", False),
        ("major", "1.5.0", "2.0.0-rc.1", True),
        ("major", "7", "8", True),
        ("patch", "7", "7", False),
        ("patch", "next", "newer", False),
    ],
)
def test_is_sufficient_compares_required_and_declared(demanded: Bump, old: str, new: str, ok: bool) -> None:
    assert is_sufficient(demanded, old, new) is ok


@each_row(
    ("demanded", "old", "new"),
    [
        ("major", "1.2.3", "2.0.0"),
        ("minor", "1.2.3", "1.3.0"),
        ("patch", "1.2.3", "1.2.4"),
        ("none", "1.2.3", "1.2.3"),
        ("major", "0.2.3", "0.3.0"),
        ("major", "0.0.3", "0.0.4"),
        ("major", "2.0.0-rc.1", "2.0.0"),
        ("major", "7", "8.0.0"),
    ],
)
def test_next_version_is_sufficient(demanded: Bump, old: str, new: str) -> None:
    assert next_version(demanded, old) == new
    assert is_sufficient(demanded, old, new)
