"""Toolhall with the benchmark's tools."""

import argparse

import uvicorn
import uvloop

from bench.servers import tools
from toolhall import Toolhall
from toolhall.config import load_config


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, help="without it: standard input and output")
    parser.add_argument("--data", required=True)
    given = parser.parse_args()
    with Toolhall(tools, config=load_config(data=given.data)) as hall:
        if given.port is None:
            uvloop.run(hall.serve_stdio())
        else:
            uvicorn.run(
                hall,
                port=given.port,
                loop="uvloop",
                http="httptools",
                access_log=False,
                log_level="error",
                lifespan="off",
            )


if __name__ == "__main__":
    main()
