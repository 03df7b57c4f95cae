"""Runs the benchmark and prints Markdown: `python -m bench --only call,list --quick --json figures.json`."""

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.forge import COMMAND as FORGE_COMMAND
from bench.hot import profile
from bench.launch import CLIENTS_PYTHON
from bench.machine import conditions, raise_file_limit
from bench.measures import MEASURES, NEEDS_PYTHON
from bench.neighbours import Neighbours
from bench.page import Result, read_results, target_table, write_results
from bench.report import Section
from bench.rounds import BEFORE, Options

ROUNDS, QUICK_ROUNDS = 7, 3
PROFILED_CALLS = 20_000


def main() -> None:
    """Run the named measures; on a signal stop and clean up."""
    given = _parse()
    signal.signal(signal.SIGTERM, _terminated)
    if given.profile:
        print(profile(PROFILED_CALLS))
        return
    if not (shutil.which("wrk") and CLIENTS_PYTHON.exists() and FORGE_COMMAND.exists()):
        sys.exit("wrk or the peers are missing: run it as `make bench`, which installs them")
    raise_file_limit()
    try:
        _run(given)
    except KeyboardInterrupt:
        sys.exit("stopped")
    except RuntimeError as error:
        sys.exit(f"the benchmark failed: {error}")


def _terminated(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def _run(given: argparse.Namespace) -> None:
    begin = time.monotonic()
    options = Options(QUICK_ROUNDS if given.quick else ROUNDS, before=given.before, python=given.python)
    names = [name for name in given.only if name not in NEEDS_PYTHON or options.python]
    sections: dict[str, Section] = {}
    results: dict[str, Result] = {}
    print(f"# Toolhall beside its peers\n\n{conditions()}; {options.rounds} rounds.\n")
    for name in names:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        neighbours = Neighbours()
        section = sections[name] = MEASURES[name](options)
        busy = f"Meanwhile other work took {neighbours.share():.0%} of the machine."
        results[name] = Result.of(section, f"{conditions()}; {options.rounds} rounds. {busy}")
        print(section.markdown())
        print(f"{busy}\n", flush=True)
        if given.docs:  # each as soon as it is measured: a run takes long, and a later measure may fail
            write_results(read_results() | results, list(MEASURES))
    verdicts = [verdict for section in sections.values() for verdict in section.verdicts]
    print(f"## Targets\n\n{target_table(verdicts, measured_only=True)}")
    print(f"measured in {time.monotonic() - begin:.0f} seconds", file=sys.stderr)
    if given.json:
        _write_figures(given.json, sections)


def _write_figures(file: Path, sections: Mapping[str, Section]) -> None:
    file.write_text(json.dumps({name: section.json() for name, section in sections.items()}, indent=1) + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=_names, default=list(MEASURES), help=f"some of {','.join(MEASURES)}")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds instead of {ROUNDS}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    parser.add_argument("--docs", action="store_true", help="also render the results into docs/reference/benchmark.md")
    parser.add_argument(
        "--before",
        default=BEFORE,
        metavar="REV",
        help="revision that `cli` and `stdio` are compared with (%(default)s)",
    )
    parser.add_argument("--python", type=Path, metavar="FILE", help="interpreter of 3.12 or newer, for `python`")
    parser.add_argument(
        "--profile", action="store_true", help="Toolhall's hot path in process: CPU and the dearest functions"
    )
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in MEASURES:
            raise argparse.ArgumentTypeError(f"there is no measure {name!r}; known are {', '.join(MEASURES)}")
    return names


if __name__ == "__main__":
    main()
