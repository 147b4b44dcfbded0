""".hpctrace files: what one thread or GPU stream was doing, sample by sample.

The modules, in the order to read them:

    format.py   the format: a trace as an experiment of one profile, as fields and as text
    records.py  its bytes
    writer.py   any profile's samples as such a trace
"""
