"""Perfetto's trace format: protocol buffers, one packet after the other, without a header or an end.

Specification: trace-outputs.md section 2 (perfetto/protos, trace.proto and what it imports).

    0a LENGTH packet                      Trace.packet, again and again
       40 time  50 sequence  68 flags     of every packet
       62 interned data                   names that events refer to by number, valid in this sequence from here on
       e2 03 track descriptor             a process, a thread, a stream, a counter
       5a track event                     the begin or end of a slice, or a value

One sequence for each process. Each part begins its sequences anew (flag 1: forget what was interned), so that parts can
be written apart and joined. A slice is a BEGIN and an END, the latter without a name: with one, readers would look for
it. Readers sort by time; the order in the file counts only between equal times of a track.

    format.py    the format of the registry
    encoder.py   tracks, slices and points as packets
    fields.py    field numbers of messages, and single messages
    rows.py      packets of one shape, many at once

Packets of one shape have one length, with padded numbers, so that thousands are made with a few operations on arrays
(rows.py). Deviations from the specification's sketch: texts of annotations are always interned, and the tables of a
sequence are forgotten when one of them has 65,536 entries.
"""
