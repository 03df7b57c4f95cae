"""Measures the source: sizes, names used twice, files crossed by real requests, modules imported, start-up time.

    .venv/bin/python tools/measure.py [--json] [--source DIR] [--tests LOG]

`--source` measures sizes and names of another checkout (its `src/toolhall`); requests are traced in this one only.
`--tests` adds the test items and test minutes that a log of pytest (`make test`) tells.
"""

import argparse
import ast
import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = 40  # lines; a module below that belongs to its neighbour
CALL = ("call", "Calculator_Add", "a=1", "b=2")
COMMANDS = {"--version": ("--version",), "--help": ("--help",), "list": ("list",), "call": CALL}


def sizes(source: Path) -> dict[str, object]:
    """Modules, lines, and names that stand for more than one thing."""
    modules = sorted(source.rglob("*.py"))
    lines = {each: len(each.read_text(encoding="utf-8").splitlines()) for each in modules}
    own = [each for each in modules if each.name != "__init__.py"]
    classes: defaultdict[str, set[str]] = defaultdict(set)
    for each in modules:
        for node in ast.parse(each.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(str(each))
    names = Counter(each.stem for each in own)
    largest = max(lines, key=lambda each: lines[each])
    return {
        "modules": len(own),
        "packages": len(modules) - len(own),
        "lines": sum(lines.values()),
        "median lines": statistics.median(lines[each] for each in own),
        "largest": f"{largest.relative_to(source)} ({lines[largest]})",
        f"modules under {SMALL} lines": sum(lines[each] < SMALL for each in own),
        "public class names used twice": sum(len(places) > 1 for places in classes.values()),
        "module names used twice": sum(count > 1 for count in names.values()),
        "import cycles": len(cycles(source, modules)),
    }


def cycles(source: Path, modules: list[Path]) -> list[set[str]]:
    """Groups of modules that import each other at the top of their files."""
    named = {".".join((source.name, *each.relative_to(source).with_suffix("").parts)).removesuffix(".__init__"): each for each in modules}
    graph: dict[str, set[str]] = {name: set() for name in named}
    for name, file in named.items():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                graph[name] |= {each for alias in node.names for each in (f"{node.module}.{alias.name}", node.module) if each in named}
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names if alias.name in named}
    reach = {name: reachable(graph, name) for name in graph}
    groups = {frozenset({name, *(each for each in reach[name] if name in reach[each])}) for name in graph if name in reach[name]}
    return [set(group) for group in groups if len(group) > 1]


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting.extend(graph[each])
    return seen


def paths() -> dict[str, str]:
    """What real requests cross: files, functions, calls."""
    sys.path.insert(0, str(ROOT))
    from tests.harness import call_trace  # lazy: the whole hall

    traces = {name: asyncio.run(trace()) for name, trace in call_trace.TRACES.items()}
    return {name: f"{len(each.files)} files, {each.functions} functions, {each.calls} calls" for name, each in traces.items()}


def commands(rounds: int = 5) -> dict[str, str]:
    """CPU time of commands (median), and how many modules of Toolhall they import."""
    count = "import atexit, sys; atexit.register(lambda: print(sum(m.split('.')[0] == 'toolhall' for m in sys.modules), file=sys.stderr))"
    found = {}
    for name, words in COMMANDS.items():
        script = f"{count}\nfrom toolhall.cli import main\nsys.argv = ['toolhall', *{list(words)!r}]\nsys.exit(main())"
        seconds: list[float] = []
        for _ in range(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        modules = done.stderr.strip().splitlines()[-1]
        found[f"toolhall {name}"] = f"{statistics.median(seconds):.2f} s of CPU, {modules} modules"
    return found


def tests(log: Path) -> dict[str, object]:
    """Items and minutes of the longest run of pytest in a log: that of the whole suite."""
    runs = [
        (float(seconds), sum(map(int, re.findall(r"(\d+) (?:passed|failed|skipped|xfailed|xpassed)\b", counts))))
        for counts, seconds in re.findall(r"(?m)^=* ?(\d+ \w.*) in ([\d.]+)s\b", log.read_text(errors="replace"))
    ]
    if not runs:
        sys.exit(f"{log} has no summary line of pytest")
    seconds, items = max(runs)
    return {"test items": items, "test minutes": round(seconds / 60, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--source", type=Path, help="another src/toolhall to measure the sizes of")
    parser.add_argument("--tests", type=Path, metavar="LOG", help="a log of pytest to take test items and minutes from")
    options = parser.parse_args()
    found: dict[str, object] = sizes(options.source or ROOT / "src" / "toolhall")
    if options.source is None:
        found |= paths() | commands()
    if options.tests is not None:
        found |= tests(options.tests)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        width = max(map(len, found))
        print("\n".join(f"{name:<{width}}  {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
