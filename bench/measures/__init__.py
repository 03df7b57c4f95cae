"""One file per measurement; each takes an effort and gives a section of the report."""

from collections.abc import Callable, Mapping

from bench.measures.call import measure_call
from bench.measures.conversion import measure_conversion
from bench.measures.dialects import measure_dialects
from bench.measures.imports import measure_import
from bench.measures.listing import measure_list
from bench.measures.registry import measure_registry
from bench.measures.scale import measure_scale
from bench.measures.start import measure_start
from bench.measures.stdio import measure_stdio
from bench.report import Section
from bench.rounds import Effort

MEASURES: Mapping[str, Callable[[Effort], Section]] = {
    "call": measure_call,
    "dialects": measure_dialects,
    "list": measure_list,
    "scale": measure_scale,
    "registry": measure_registry,
    "stdio": measure_stdio,
    "start": measure_start,
    "import": measure_import,
    "conversion": measure_conversion,
}
