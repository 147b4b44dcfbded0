"""Perfetto traces: tracks with slices, instants and counters, in packets of protocol buffers.

Specification: more-inputs.md 5, trace-outputs.md 2. The modules, in the order to read them:

    fields.py      numbers of the fields, for reading and writing
    writer.py      what encoders are given -> packets
    packets.py     the file as blocks of packets, inflated
    sequences.py   what packets say for those that follow: interned texts, defaults, clocks
    events.py      packets -> columns of events
    tracks.py      where events happen
    reader.py      events and tracks -> a data set
    format.py      the format of the registry: recognising, checking, dumping
"""
