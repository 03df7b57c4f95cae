"""Counts the losses of every corpus definition in every dialect: `python -m tests.corpora`."""

from collections import Counter

from tests.corpora.corpora import FILES, definitions
from tests.corpora.journeys import converted
from toolhall.dialects.base import Loss
from toolhall.dialects.catalogs import CATALOGS, WRITE_ONLY_CATALOGS
from toolhall.dialects.findings import BadDocument


def main() -> None:
    """Print one table: dialect, reason, top-level member, how many."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for file in FILES:
        print(f"{len(definitions(file)):6} {file.name}")  # noqa: T201 - this is what it is for
        for target in (*CATALOGS, *WRITE_ONLY_CATALOGS):
            for document in definitions(file):
                counted.update(_kinds(document, target))
    for (target, reason, member), times in sorted(counted.items(), key=lambda each: (each[0][0], -each[1])):
        print(f"{times:6} {target:24} /{member:16} {reason}")  # noqa: T201


def _kinds(document: object, target: str) -> list[tuple[str, str, str]]:
    try:
        losses = [loss for part in converted([document], target) for loss in part.losses]
    except BadDocument as bad:
        losses = [Loss(finding.path, f"refused: {finding.rule}") for finding in bad.findings]
    return [(target, _kind(loss, target), loss.path[1:].partition("/")[0]) for loss in losses]


def _kind(loss: Loss, target: str) -> str:
    """The reason without the names that only this definition has."""
    return loss.reason.removeprefix(f"{target} ").partition(";")[0][:60]


if __name__ == "__main__":
    main()
