"""What happened over time, for viewers of traces: Perfetto, Chrome's JSON, OTF2, and what they share.

Specification: trace-outputs.md.

    experiment --> places        processes, and their tracks: threads, GPU streams, counters      places.py
               --> ordered_spans spans of one part by process and time, with what belongs to them source.py
                                 (`SpanOrder` sorts; which call launched which operation)
               --> SliceMaker    slices on tracks and lanes, with names, notes and flows          slices.py
               --> stack_slices  samples of call stacks as nested slices                          slices.py
               --> CounterPoints memory in use, counters over time                                slices.py
               --> an encoder    bytes of one format         perfetto_encoder.py, chrome_json.py, otf2.py

    content.py                   what encoders are given, and what no trace can hold: left out in one place, counted
    notes.py                     what slices say about themselves
    writer.py                    joins these to a writer, for all formats alike; where bytes go
    perfetto_messages.py         messages of Perfetto, many at once
    otf2_definitions.py          definitions of an OTF2 archive

A format brings an encoder, which turns tracks, slices and points into bytes and knows nothing of where they come from.
The parts of a trace, such as the databases of many processes, are encoded independently of each other, here or by other
processes.
"""
