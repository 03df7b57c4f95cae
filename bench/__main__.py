"""Runs the benchmark and prints Markdown: `python -m bench --only call,list --quick --json figures.json`."""

import argparse
import json
import platform
import shutil
import signal
import sys
import time
from pathlib import Path

from bench.forge import COMMAND as FORGE_COMMAND
from bench.hot import profile
from bench.measures import MEASURES
from bench.neighbours import Neighbours
from bench.report import Section, summary
from bench.rounds import Effort
from bench.targets import CLIENTS_PYTHON

USUAL, QUICK = Effort(rounds=7), Effort(rounds=3)
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
    try:
        _run(given.only, QUICK if given.quick else USUAL, given.json)
    except KeyboardInterrupt:
        sys.exit("stopped")
    except RuntimeError as error:
        sys.exit(f"the benchmark failed: {error}")


def _terminated(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def _run(names: list[str], effort: Effort, file: Path | None) -> None:
    begin = time.monotonic()
    sections: dict[str, Section] = {}
    machine = f"Python {platform.python_version()}, {platform.machine()}"
    print(f"# Toolhall beside its peers\n\n{machine}, {effort.rounds} rounds.\n")
    for name in names:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        neighbours = Neighbours()
        sections[name] = MEASURES[name](effort)
        print(sections[name].markdown())
        print(f"Meanwhile other work took {neighbours.share():.0%} of the machine.\n", flush=True)
    print(summary(list(sections.values())))
    print(f"measured in {time.monotonic() - begin:.0f} seconds", file=sys.stderr)
    if file:
        file.write_text(json.dumps({name: section.json() for name, section in sections.items()}, indent=1) + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = ",".join(MEASURES)
    parser.add_argument("--only", type=_names, default=list(MEASURES), help=f"some of {known}")
    parser.add_argument("--quick", action="store_true", help="three rounds: a first impression")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    parser.add_argument(
        "--profile", action="store_true", help="Toolhall's hot path in process: CPU and the dearest functions"
    )
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in MEASURES:
            raise argparse.ArgumentTypeError(f"there is no measurement {name!r}; known are {', '.join(MEASURES)}")
    return names


if __name__ == "__main__":
    main()
