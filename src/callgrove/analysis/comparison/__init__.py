"""What differs between experiments, and between studies: `diff`.

The modules, in the order to read them:

    call_paths.py   when call paths of several inputs are the same, and which names are
    sides.py        what is asked, and what each experiment has to compare
    experiments.py  one metric of several experiments, call path by call path
    scaling.py      losses, speed-up and efficiency between runs on different numbers of processes
    sentences.py    what a comparison comes to, in words
    studies.py      series of several studies at the points that they have in common
"""

from __future__ import annotations

from callgrove.analysis.comparison.experiments import Comparison, compare
from callgrove.analysis.comparison.sides import Question

__all__ = ["Comparison", "Question", "compare"]
