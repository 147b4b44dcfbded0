"""What profiles did over time.

The modules, in the order to read them:

    events.py              samples, spans, counters, devices; attributes that only some spans have
    span_order.py          how spans are drawn: in the order of time, and on lanes where they overlap
    sampled_stacks.py      call stacks of samples as nested runs
    intervals.py           union, overlap, gaps, concurrency and nesting of intervals
    windows.py             windows of time, as texts and between markers
    selected.py            the traces of some profiles in a window, a view of those of the whole
    pairing.py             calls and what they launched, ranges and their kernels, allocations and frees
    profile_from_spans.py  a calling-context profile folded from spans
"""
