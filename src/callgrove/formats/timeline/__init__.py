"""What happened over time, for viewers of traces: Perfetto, Chrome's JSON, OTF2, and what they share.

Specification: trace-outputs.md.

    experiment --> processes and tracks --> spans in order --> slices and points --> an encoder --> bytes

The modules, in the order to read them:

    writer.py       the writer of all these formats
    source.py       spans of one part by process and time, with what belongs to them and what launched them
    slices.py       slices on tracks and lanes: of spans and of sampled call stacks; points of counters
    notes.py        what slices say about themselves
    flows.py        ends of flows that slices carry
    content.py      what encoders are given: processes, tracks, slices, points; what no trace can hold is counted
    perfetto/       Perfetto's packets, many messages at once: written and read
    chrome_json.py  Chrome's trace events, written
    chrome/         Chrome's trace events, read
    otf2/           OTF2 archives

A format brings an encoder, which turns tracks, slices and points into bytes and knows nothing of where they come from.
The parts of a trace, such as the databases of many processes, are encoded independently of each other, here or by other
processes.
"""
