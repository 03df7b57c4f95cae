"""Measures the source: sizes, names, duplicated lines, files crossed by real requests, modules imported, CPU time.

    .venv/bin/python tools/measure.py [--json] [--source DIR] [--tests LOG]

`--source` measures sizes, names and duplicated lines of another checkout (its `src/toolhall`); requests are traced and
commands are run in this one only.
`--tests` adds the test items and test minutes that a log of pytest (`make test`) tells.

A line counts as duplicated if it is part of six lines in a row that stand somewhere else, too. Blank lines, comments,
imports and lines of punctuation are passed over, and white space is folded. The first share compares the lines as they
are written; the second one takes every name, string and number for the same and leaves out docstrings, so that it
finds renamed copies, and also tables, lists of fields and signatures that are only built alike.

The modules of `toolhall serve` are those that are imported until it is ready.
"""

import argparse
import ast
import asyncio
import io
import json
import keyword
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = 40  # lines; a module below that belongs to its neighbour
WINDOW = 6  # lines in a row that make a duplicate
CALL = ("call", "Calculator_Add", "a=1", "b=2")
COMMANDS = {"--version": ("--version",), "--help": ("--help",), "list": ("list",), "call": CALL}
SERVE = ("serve", "--port", "0", "--json")
COUNT = (
    "import atexit, sys\n"
    "own = lambda: sum(m.split('.')[0] == 'toolhall' for m in sys.modules)\n"
    "atexit.register(lambda: print(own(), file=sys.stderr))\n"
)


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


def duplicates(source: Path) -> dict[str, str]:
    """The share of duplicated lines: as they are written, and with names, strings and numbers taken for the same."""
    modules = sorted(source.rglob("*.py"))
    return {
        "duplicated lines": duplicated_share([written_lines(each) for each in modules]),
        "duplicated lines by shape": duplicated_share([shaped_lines(each) for each in modules]),
    }


def duplicated_share(files: list[list[str]]) -> str:
    """The share of lines in windows that stand in more than one place."""
    places: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, lines in enumerate(files):
        for start in range(len(lines) - WINDOW + 1):
            places[tuple(lines[start : start + WINDOW])].append((number, start))
    found = {
        (number, line)
        for windows in places.values()
        if len(windows) > 1
        for number, start in windows
        for line in range(start, start + WINDOW)
    }
    every = sum(map(len, files))
    return f"{len(found) / every:.1%} ({len(found)} of {every})"


def written_lines(module: Path) -> list[str]:
    """The lines of code and docstrings, without imports; white space is folded."""
    text = module.read_text(encoding="utf-8")
    left_out = lines_of(ast.parse(text), lambda node: isinstance(node, ast.Import | ast.ImportFrom))
    lines = {number: " ".join(line.split()) for number, line in enumerate(text.splitlines(), 1)}
    return [
        line
        for number, line in lines.items()
        if number not in left_out and re.search(r"\w", line) and not line.startswith("#")
    ]


def shaped_lines(module: Path) -> list[str]:
    """The lines of code as their tokens, without imports and docstrings; names, strings and numbers are alike."""
    text = module.read_text(encoding="utf-8")
    left_out = lines_of(ast.parse(text), lambda node: isinstance(node, ast.Import | ast.ImportFrom) or is_text(node))
    shapes: defaultdict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.start[0] not in left_out and token.type != tokenize.COMMENT and token.string.strip():
            shapes[token.start[0]].append(shape(token))
    return [line for parts in shapes.values() if re.search(r"\w", line := " ".join(parts))]


def shape(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
        return "name"
    return {tokenize.STRING: "text", tokenize.NUMBER: "0"}.get(token.type, token.string)


def is_text(node: ast.AST) -> bool:
    """Whether a statement is only a text, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def lines_of(tree: ast.Module, belongs: Callable[[ast.AST], bool]) -> set[int]:
    """The numbers of all lines of the statements that belong."""
    return {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and belongs(node)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def cycles(source: Path, modules: list[Path]) -> list[set[str]]:
    """Groups of modules that import each other at the top of their files."""
    dotted = {".".join((source.name, *each.relative_to(source).with_suffix("").parts)): each for each in modules}
    named = {name.removesuffix(".__init__"): each for name, each in dotted.items()}
    graph: dict[str, set[str]] = {name: set() for name in named}
    for name, file in named.items():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                graph[name] |= imported & named.keys()
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names if alias.name in named}
    reach = {name: reachable(graph, name) for name in graph}
    cyclic = [name for name in graph if name in reach[name]]
    groups = {frozenset({name, *(each for each in reach[name] if name in reach[each])}) for name in cyclic}
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
    return {
        name: f"{len(each.files)} files, {each.functions} functions, {each.calls} calls"
        for name, each in traces.items()
    }


def commands(rounds: int = 5) -> dict[str, str]:
    """CPU time of commands (median), and how many modules of Toolhall they import."""
    found = {}
    for name, words in COMMANDS.items():
        script = f"{COUNT}from toolhall.cli import main\nsys.argv = ['toolhall', *{list(words)!r}]\nsys.exit(main())"
        seconds: list[float] = []
        for _ in range(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [sys.executable, "-c", script],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "NO_COLOR": "1"},
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        modules = done.stderr.strip().splitlines()[-1]
        found[f"toolhall {name}"] = f"{statistics.median(seconds):.2f} s of CPU, {modules} modules"
    return found


def serve() -> dict[str, str]:
    """How many modules of Toolhall `toolhall serve` imports until it is ready, serving the examples."""
    script = f"{COUNT}from toolhall.cli import main\nsys.argv = ['toolhall', *{list(SERVE)!r}]\nsys.exit(main())"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", script]
        environment = {**os.environ, "NO_COLOR": "1", "TOOLHALL_DATA": folder}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it is ready
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate()
    return {"toolhall serve": f"{errors.strip().splitlines()[-1]} modules"}


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--source", type=Path, help="another src/toolhall to measure the sizes of")
    parser.add_argument("--tests", type=Path, metavar="LOG", help="a log of pytest to take test items and minutes from")
    options = parser.parse_args()
    source = options.source or ROOT / "src" / "toolhall"
    found: dict[str, object] = sizes(source) | duplicates(source)
    if options.source is None:
        found |= paths() | commands() | serve()
    if options.tests is not None:
        found |= tests(options.tests)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        width = max(map(len, found))
        print("\n".join(f"{name:<{width}}  {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
