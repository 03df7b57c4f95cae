"""`python -m toolhall.cli` is the same as `toolhall`."""

import sys

from toolhall.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
