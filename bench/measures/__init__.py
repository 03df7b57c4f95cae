"""One file per measurement; each takes an effort and gives a section of the report."""

from collections.abc import Callable, Mapping

from bench.measures.call import measure_call
from bench.measures.conversion import measure_conversion
from bench.measures.dialects import measure_dialects
from bench.measures.guard import measure_guard
from bench.measures.imports import measure_import
from bench.measures.listing import measure_list
from bench.measures.loop import measure_loop
from bench.measures.overload import measure_overload
from bench.measures.proxied import measure_proxied
from bench.measures.registry import measure_registry
from bench.measures.scale import measure_scale
from bench.measures.start import measure_start
from bench.measures.stdio import measure_stdio
from bench.measures.supply import measure_supply
from bench.measures.trouble import measure_trouble
from bench.report import Section
from bench.rounds import Effort

MEASURES: Mapping[str, Callable[[Effort], Section]] = {
    "call": measure_call,
    "loop": measure_loop,
    "guard": measure_guard,
    "proxied": measure_proxied,
    "dialects": measure_dialects,
    "list": measure_list,
    "scale": measure_scale,
    "registry": measure_registry,
    "stdio": measure_stdio,
    "start": measure_start,
    "import": measure_import,
    "overload": measure_overload,
    "conversion": measure_conversion,
    "trouble": measure_trouble,
    "supply": measure_supply,
}
