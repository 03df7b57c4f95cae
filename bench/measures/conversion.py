"""Definitions from their dialect to every other: CPU per definition, bytes in to bytes out."""

import resource
import statistics
import subprocess
import sys
import time
from functools import partial

from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import Spread
from bench.targets import TARGETS
from tests.corpora.corpora import FILES
from toolhall.dialects import strict_json
from toolhall.dialects.catalogs import CATALOGS, WRITE_ONLY_CATALOGS
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.findings import BadDocument
from toolhall.model.json import encode

ABOUT = """In this process, without files: each line is decoded strictly, its dialect detected, converted with carriers
and a list of losses, and encoded again. Strict mode refuses most definitions, which counts like an answer. The mean is
over all definitions and all dialects that are read and written; those that are only written are shown beside them. The
command is the whole process, from its start to its last line."""


def measure_conversion(options: Options) -> Section:
    """Every target dialect in turn, over all definitions there are."""
    lines = [line for file in FILES for line in file.read_bytes().splitlines()]
    targets = (*CATALOGS, *WRITE_ONLY_CATALOGS)
    seen = interleaved({target: partial(_convert, lines, target) for target in targets}, options.halved().rounds)
    # A round's mean is over what the same moments of the machine gave.
    means = [statistics.mean(each) for each in zip(*(seen[target] for target in CATALOGS), strict=True)]
    slowest = max(CATALOGS, key=lambda target: statistics.median(seen[target]))
    shown = {
        **seen,
        "mean of those with carriers": means,
        f"slowest of those with carriers: {slowest}": seen[slowest],
        "the command, to oxp": [_command(lines) for _ in range(options.halved().rounds)],
    }
    rows = [_row(target, values) for target, values in shown.items()]
    columns = ["target", "CPU µs per definition", "definitions per CPU second"]
    verdict = TARGETS["conversion.rate"].verdict(Spread.of([1e6 / value for value in means]))
    about = f"{len(lines):,} definitions from {len(FILES)} files. {ABOUT}"
    return Section("A conversion", about, columns, rows, [verdict], {**seen, "mean": means})


def _convert(lines: list[bytes], target: str) -> float:
    """CPU microseconds per definition."""
    converter = Converter(target)
    start = time.process_time()
    for index, line in enumerate(lines):
        try:
            for part in converter.feed(strict_json.decode(line), index):
                for document in part.documents:
                    encode(document)
        except BadDocument as refused:
            if "strict" not in target:
                raise RuntimeError(f"{target} refuses line {index}: {refused}") from refused
    for part in converter.finish():
        for document in part.documents:
            encode(document)
    return (time.process_time() - start) / len(lines) * 1e6


def _command(lines: list[bytes]) -> float:
    """CPU microseconds per definition of `toolhall convert` as a process, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "toolhall.cli", "convert", "-", "--to", "oxp"]
    subprocess.run(command, input=b"\n".join(lines), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(lines) * 1e6


def _row(name: str, values: list[float]) -> list[str]:
    return [name, Spread.of(values).text(1), Spread.of([1e6 / value for value in values]).text()]
