"""Measurement files of kinds that no genuine sample has: two epochs, logical unwinding, reals, formulas, early 04.00.

python -m tests.formats.hpcrun.hpcrun_synthetic      writes those that the corpus keeps
"""

from __future__ import annotations

from tests.formats.hpcrun.hpcrun_bytes import (
    DERIVED,
    INT,
    REAL,
    ROOT,
    File04,
    RawEpoch,
    RawMetric,
    RawNode,
    code,
    file_02,
)
from tests.requirements import ROOT as CHECKOUT

FOLDER = CHECKOUT / "tests" / "corpus" / "hpcrun" / "synthetic"

# The second epoch shares the path to 0x1005 with the first one, has another loadmap and another table of metrics, and
# uses the id 4 for another node.
FIRST_EPOCH = RawEpoch(
    metrics=(RawMetric("CYCLES", INT, period=1000), RawMetric("TIME (usec)", REAL)),
    nodes=(
        RawNode(2, 0, 0, 0, (0, 0.0)),
        RawNode(4, 2, 1, 0x1006, (0, 0.0)),
        RawNode(-5, 4, 1, 0x2000, (7, 1.5)),
        RawNode(-6, 4, 2, 0x30, (0, 2.5)),
        RawNode(-8, 2, 0, 1, (1, 0.0)),
    ),
)
SECOND_EPOCH = RawEpoch(
    metrics=(RawMetric("TIME (usec)", REAL), RawMetric("BRANCHES", INT)),
    nodes=(
        RawNode(2, 0, 0, 0, (0.0, 0)),
        RawNode(3, 2, 2, 0x1006, (0.0, 0)),
        RawNode(-5, 3, 2, 0x2000, (10.0, 2**63 + 1)),
        RawNode(-4, 3, 1, 0x30, (0.25, 3)),
    ),
    modules=((1, "/lib/libm.so"), (2, "/bin/app")),
    granularity=2,
    ra=1,
)
LOGICAL = RawEpoch(
    metrics=(RawMetric("TIME (usec)", REAL),),
    nodes=(
        RawNode(2, 0, 0, 0, (0.0,), 1, bytes(range(16))),
        RawNode(-5, 2, 1, 0x2000, (1.25,), 2, bytes(range(16, 32))),
    ),
    flags=1,
)
FORMULAS = RawEpoch(
    metrics=(
        RawMetric("READS", INT, period=10),
        RawMetric("WRITES", INT),
        RawMetric("BALANCE", REAL, formula="$0-$1", ty=DERIVED, show=3),
    ),
    nodes=(RawNode(2, 0, 0, 0, (0, 0, 0.0)), RawNode(-5, 2, 1, 0x2000, (3, 4, 0.0))),
)
EARLY_04 = File04(has_flags=False)
MIXED_04 = File04(
    nodes=(
        ROOT,
        (14, 12, 0, code("| Main  "), 1),
        (16, 14, 1, 0x1000, 1),
        (18, 16, 1, 0x2000, 1),
        (20, 16, 2, 0xFFFFFFFF81000000, 0),
        (22, 14, 0, code("*Unnorm "), 1),
        (24, 14, 0, code("Strange\x01"), 1),
    ),
    metrics=(
        RawMetric("CPUTIME (sec)", REAL),
        RawMetric("PAPI_TOT_INS", INT, period=100000000, tail=(1, 0, 1e8, 5)),
        RawMetric("RATE", REAL, formula="#1/#0", ty=DERIVED, show=4),
    ),
    values=((20, ((1, 3),)), (18, ((0, 0.25), (1, 2**30 + 1))), (22, ((0, 0.125),)), (24, ((0, 4.0),))),
)

FILES = {
    "two-epochs.hpcrun": file_02(FIRST_EPOCH, SECOND_EPOCH),
    "logical.hpcrun": file_02(LOGICAL, dialect="A"),
    "formulas.hpcrun": file_02(FORMULAS),
    "early.hpcrun": EARLY_04.packed(),
    "mixed.hpcrun": MIXED_04.packed(),
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in FILES.items():
        (FOLDER / name).write_bytes(data)
