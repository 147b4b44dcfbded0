"""The gate: did repetitions of a program become slower, and what can these repetitions tell at all.

The modules, in the order to read them:

    orders.py    labels of runs permuted, and the largest t over all functions in every order
    decision.py  from runs to costs, tests and verdicts: `gate`
    wording.py   what a gate says: sentences about what was seen, and about what could have been
"""

from __future__ import annotations

from callgrove.analysis.gate.decision import Gate, GateRow, gate

__all__ = ["Gate", "GateRow", "gate"]
