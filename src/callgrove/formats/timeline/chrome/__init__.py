"""Chrome traces, read: those of PyTorch (Kineto), viztracer, and our own.

Specification: more-inputs.md 1. The modules, in the order to read them:

    stream.py      the text as a stream of events, one block in memory at a time
    times.py       decimal microseconds -> whole nanoseconds, exactly
    categories.py  what categories and arguments mean
    decode.py      events -> columns of a data set
    pairing.py     begins and ends become spans, ends of flows find theirs
    places.py      tracks -> processes, devices and lanes
    reading.py     files -> data sets -> experiment; `dump`
"""
