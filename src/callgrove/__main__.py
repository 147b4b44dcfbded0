"""`python -m callgrove`."""

from __future__ import annotations

import sys

from callgrove.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
