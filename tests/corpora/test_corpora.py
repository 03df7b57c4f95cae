"""Every corpus definition converts to every dialect and back exactly, with every loss listed."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.corpora.corpora import FILES, OWN, definitions
from tests.corpora.journeys import converted, documents, exactly, resolve, unlisted, without_loss_records
from toolhall.dialects.catalogs import CATALOGS, WRITE_ONLY_CATALOGS, detect_dialect
from toolhall.dialects.convert import lossless
from toolhall.dialects.findings import BadDocument

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def test_own_corpus_covers_every_dialect() -> None:
    assert len(definitions(OWN)) >= 40
    assert {detect_dialect(document).name for document in definitions(OWN)} == set(CATALOGS) - {
        "mcp@2025-06-18",
        "mcp@2025-11-25",
    }


@each_file
def test_corpus_read_and_written_is_unchanged(file: Path) -> None:
    refused: list[str] = []
    for document in definitions(file):
        catalog = detect_dialect(document)
        assert catalog.read(document)
        try:
            tools = lossless.read(document, catalog)
        except BadDocument as bad:
            refused.extend(finding.rule.partition("/")[2] for finding in bad.findings)
        else:
            assert exactly(lossless.write(tools, catalog)) == exactly(document)
    assert set(refused) <= {"schema"}, "a schema that cannot be used can still be converted"
    assert len(refused) <= 1 + len(definitions(file)) // 1000


@each_file
@pytest.mark.parametrize("target", CATALOGS)
def test_corpus_round_trip_is_exact(file: Path, target: str, record_property: Callable[[str, object], None]) -> None:
    kinds: Counter[str] = Counter()
    for document in definitions(file):
        source = detect_dialect(document)
        parts = converted([document], target)
        there = documents(parts)
        assert exactly(documents(converted(there, source.name, target))) == exactly([document])
        losses = [loss for part in parts for loss in part.losses]
        kinds.update(loss.reason.partition(";")[0] for loss in losses)
        for loss in losses:
            resolve(document, loss.path)
        if source.name != target:
            assert not unlisted(document, without_loss_records(there, source, CATALOGS[target]), losses)
    record_property("definitions", len(definitions(file)))
    record_property("corpus", file.stem)
    record_property("lost", dict(kinds))


@each_file
@pytest.mark.parametrize("target", WRITE_ONLY_CATALOGS)
def test_corpus_losses_to_write_only_dialects_have_paths_that_resolve(file: Path, target: str) -> None:
    for document in definitions(file):
        try:
            parts = converted([document], target)
        except BadDocument as bad:
            assert "strict" in target, "only strict mode refuses what can be read"
            for finding in bad.findings:
                resolve(document, finding.path)
            continue
        assert documents(parts)
        for loss in (loss for part in parts for loss in part.losses):
            resolve(document, loss.path)
