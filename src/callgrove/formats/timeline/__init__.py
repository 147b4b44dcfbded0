"""What happened over time, for viewers of traces: `perfetto`, and the layer that it shares with other such formats.

Specification: trace-outputs.md.

    experiment --> places        processes, and their tracks: threads, GPU streams, counters      places.py
               --> ordered_spans spans of one part by process and time, with what belongs to them source.py
                                 (model/span_order.py sorts, launches.py finds what launched what)
               --> SliceMaker    slices on tracks and lanes, with names, notes and flows          slices.py
               --> stack_slices  samples of call stacks as nested slices                          stacks.py
               --> CounterPoints memory in use, counters over time                                slices.py
               --> an encoder    bytes of one format                                              perfetto/

`TimelineWriter` (writer.py) joins these to a writer, for all formats alike: a format brings an encoder, which turns
tracks, slices and points into bytes and knows nothing of where they come from. The parts of a trace, such as the
databases of many processes, are encoded independently of each other, here or by other processes.

What no trace can hold is left out or changed in one place, content.py, and counted.
"""
