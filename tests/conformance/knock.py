"""What the official suite starts for each scenario: passes it on to the client in the process of the test.

`python knock.py SOCKET URL`: starting the client anew for each scenario would take longer than the scenario.
"""

import json
import os
import socket
import sys


def main(place: str, url: str) -> str | None:
    """Hand the scenario over; returns why it failed."""
    wanted = {name: value for name, value in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(place)
        line.sendall(json.dumps({"url": url, "environment": wanted}).encode() + b"\n")
        with line.makefile() as reply:
            return reply.read() or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
