"""Workflows of one empty step in DBOS, one after the other: `python dbos_workflow.py FOLDER COUNT` prints the cost.

It runs in the environment of the gateways, so it imports nothing of this tree.
"""

import json
import logging
import sys
import time

from dbos import DBOS  # pyright: ignore[reportMissingImports] - only in the environment of the gateways

WARM_UP = 20


def do_nothing(number: int) -> int:
    """The step."""
    return number


step = DBOS.step()(do_nothing)


def one_step(number: int) -> int:
    """The workflow."""
    done: int = step(number)
    return done


workflow = DBOS.workflow()(one_step)


def main(folder: str, count: int) -> None:
    """Run so many, and print what one cost on average."""
    logging.disable(logging.CRITICAL)
    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{folder}/dbos.sqlite", "run_admin_server": False})
    DBOS.launch()
    for number in range(WARM_UP):
        DBOS.start_workflow(workflow, number).get_result()
    cpu, seconds = time.process_time(), time.perf_counter()
    for number in range(count):
        DBOS.start_workflow(workflow, number).get_result()
    used = time.process_time() - cpu, time.perf_counter() - seconds
    print(json.dumps({"cpu_ms": used[0] / count * 1e3, "wall_ms": used[1] / count * 1e3}))
    DBOS.destroy()


main(sys.argv[1], int(sys.argv[2]))
