"""The second pass: the trace of a file as samples of contexts (hpcrun-and-prof.md 9).

Samples on nodes that the file does not have, or whose callers are not known, are left out. Of several idle samples one
after the other the first is kept, unless the target has a context for them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from callgrove.formats.hpcrun.files import TRACE_SUFFIX
from callgrove.formats.hpcrun.hpctrace_records import CALL_TRACE, TraceFile
from callgrove.model.arrays import ABSENT, Ids
from callgrove.model.traces import Samples
from callgrove.prof.costs import FileNodes
from callgrove.prof.plan import Plan

__all__ = ["samples_of"]

LEFT_OUT = ABSENT - 1  # -1 is idle


def samples_of(plan: Plan, file: FileNodes) -> tuple[Samples, int]:
    """The samples of a file, in the ids of the experiment, and how many were left out."""
    path = Path(file.file.path).with_suffix(TRACE_SUFFIX)
    trace = TraceFile.open(path, 1000 if file.measurement.is_old else 1)
    time, node, _ = trace.arrays()
    context = _contexts(plan, file, node, bool(trace.flags & CALL_TRACE))
    known = context != LEFT_OUT
    n_left_out = len(known) - int(np.count_nonzero(known))
    if n_left_out:
        time, context = time[known], context[known]
    if (time[1:] < time[:-1]).any():
        order = np.argsort(time, kind="stable")
        time, context = time[order], context[order]
    if not plan.flavour.has_idle:
        idle = context == ABSENT
        again = np.flatnonzero(idle[1:] & idle[:-1]) + 1
        if len(again):
            time, context = np.delete(time, again), np.delete(context, again)
    return Samples(time, context), n_left_out


def _contexts(plan: Plan, file: FileNodes, node: Ids, is_call_trace: bool) -> Ids:
    """The context of each node id, LEFT_OUT where it has none. Ids mean the last epoch that has them."""
    which = plan.first if is_call_trace else plan.full
    out: Ids | None = None
    for epoch, nodes in zip(file.measurement.epochs, file.nodes, strict=True):
        own = which[nodes]
        table = np.append(np.where(own >= 0, plan.sampled[own], LEFT_OUT), LEFT_OUT).astype(np.int32)
        found: Ids = table[epoch.nodes.positions[node]]  # -1 picks the last
        out = found if out is None else np.where(found == LEFT_OUT, out, found)
    return np.full(len(node), LEFT_OUT, np.int32) if out is None else out
