"""What profiles did over time.

The modules, in the order to read them:

    events.py              samples, spans, counters, devices; attributes that only some spans have
    windows.py             windows of time, as texts and between markers
    intervals.py           union, overlap, gaps, concurrency and nesting of intervals
    pairing.py             calls and what they launched, ranges and their kernels, allocations and frees
    span_order.py          spans in the order of time, however many there are
    lanes.py               rows for spans that overlap
    profile_from_spans.py  a calling-context profile folded from spans
"""
