"""What happened over time, for viewers of traces: `perfetto`, and the layer that it shares with other such formats.

Specification: trace-outputs.md.

    experiment --> places        processes, and their tracks: threads, GPU streams, counters      places.py
               --> ordered_spans spans of one part by process and time, with what belongs to them source.py
                                 (`SpanOrder` sorts, launches.py finds what launched what)
               --> SliceMaker    slices on tracks and lanes, with names, notes and flows          slices.py
               --> stack_slices  samples of call stacks as nested slices                          stacks.py
               --> CounterPoints memory in use, counters over time                                slices.py
               --> an encoder    bytes of one format                     perfetto/, chrome_json.py, otf2_archive.py

    items.py                     what encoders are given; notes.py: what slices say about themselves
    output.py                    where bytes go: beside the target until it is complete, compressed, or to stdout
    chrome_text.py               slices and points as Chrome's events
    otf2_places.py, otf2_events.py    definitions and events of an OTF2 archive

`TimelineWriter` (writer.py) joins these to a writer, for all formats alike: a format brings an encoder, which turns
tracks, slices and points into bytes and knows nothing of where they come from. The parts of a trace, such as the
databases of many processes, are encoded independently of each other, here or by other processes.

What no trace can hold is left out or changed in one place, content.py, and counted.
"""
