"""One file per measurement; each takes an options and gives a section of the report."""

from collections.abc import Callable, Mapping

from bench.measures.call import measure_call
from bench.measures.cli import measure_cli
from bench.measures.connections import measure_connections
from bench.measures.conversion import measure_conversion
from bench.measures.dialects import measure_dialects
from bench.measures.guard import measure_guard
from bench.measures.imports import measure_import
from bench.measures.latency import measure_latencies
from bench.measures.listing import measure_list
from bench.measures.loop import measure_loop
from bench.measures.memory import measure_memory
from bench.measures.overload import measure_overload
from bench.measures.proxied import measure_proxied
from bench.measures.python import measure_python
from bench.measures.registry import measure_registry
from bench.measures.scale import measure_scale
from bench.measures.start import measure_start
from bench.measures.stdio import measure_stdio
from bench.measures.supply import measure_supply
from bench.measures.tasks import measure_tasks
from bench.measures.trouble import measure_trouble
from bench.measures.workers import measure_workers
from bench.report import Section
from bench.rounds import Options

MEASURES: Mapping[str, Callable[[Options], Section]] = {
    "call": measure_call,
    "python": measure_python,
    "loop": measure_loop,
    "guard": measure_guard,
    "proxied": measure_proxied,
    "dialects": measure_dialects,
    "latency": measure_latencies,
    "connections": measure_connections,
    "workers": measure_workers,
    "memory": measure_memory,
    "list": measure_list,
    "scale": measure_scale,
    "registry": measure_registry,
    "stdio": measure_stdio,
    "cli": measure_cli,
    "start": measure_start,
    "import": measure_import,
    "overload": measure_overload,
    "conversion": measure_conversion,
    "trouble": measure_trouble,
    "supply": measure_supply,
    "tasks": measure_tasks,
}
NEEDS_PYTHON = frozenset({"python"})  # left out unless another interpreter is named
