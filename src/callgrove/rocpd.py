"""`python -m callgrove.rocpd`: the command `rocpd` of ROCm, as `callgrove rocpd`.

python -m callgrove.rocpd convert -i results.db -f pftrace
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from callgrove.cli.main import main as run_callgrove

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, those of the process by default, and return its exit code. Without any it
    prints its help."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_callgrove(["rocpd", *(words or ["-h"])])


if __name__ == "__main__":
    sys.exit(main())
