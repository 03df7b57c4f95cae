"""Serves kit.py on standard input and output, in the dialect that the command line names."""

import asyncio
import sys

from tests.conformance.dialects.kit import hall

if __name__ == "__main__":
    with hall:
        asyncio.run(hall.serve_stdio(sys.argv[1]))
