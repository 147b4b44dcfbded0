"""GPU traces in SQLite: rocprofv3's rocpd, the draft schema that preceded it, RPD, Nsight Systems.

Specification: gpu-traces.md. Four families of schemas, one way to an experiment:

    formats.py       the formats of the registry, and what `check` and `dump` say
    files.py         what a user names (files, folders, index.yaml) -> databases, each once
    event_tables.py  tables whose rows are events, and a data set made of them

    rocpd/           rocprofv3's database, read and written
    draft/           the draft schema, read and written
    nsight/          Nsight Systems exports
    rpd.py           RPD databases

What becomes of their data sets is in `formats/events/`.
"""
