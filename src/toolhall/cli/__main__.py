"""`python -m toolhall.cli` is the same as `toolhall`."""

import sys

from toolhall.cli.program import main

if __name__ == "__main__":
    sys.exit(main())
