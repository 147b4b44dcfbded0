"""What a colleague would say of a run, or of two: a few findings, the weightiest first, each with its number and with
the command that shows more.

The modules, in the order to read them:

    findings.py    findings, and the explanation that is made of them
    programs.py    what functions cost in each rank or thread of a run, and which of them wait
    gpus.py        what devices of a run did: computing, copying, exchanging, idle, and all at once
    single_run.py  a run by itself: `explain`
    two_runs.py    why one run takes longer than another: `why`
"""

from __future__ import annotations

from callgrove.analysis.explain.findings import Amount, Explanation, Finding
from callgrove.analysis.explain.single_run import explain
from callgrove.analysis.explain.two_runs import why

__all__ = ["Amount", "Explanation", "Finding", "explain", "why"]
