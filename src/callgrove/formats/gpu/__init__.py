"""GPU traces in SQLite: rocprofv3's rocpd, the draft schema that preceded it, RPD, Nsight Systems.

Specification: gpu-traces.md. Four families of schemas, one way to an experiment:

    formats.py     the formats of the registry, and what `check` and `dump` say
    files.py       what a user names (files, folders, index.yaml) -> databases, each once; which jobs they are of
    dataset.py     what a family's reader gives: processes, lanes, devices, and event tables in chunks
    places.py      hosts, processes with ranks, devices and lanes of all data sets, as profiles and a system tree
    spans.py       events of any number of data sets as the spans of one experiment, on one clock
    experiment.py  data sets -> experiment

    rocpd/           rocprofv3's database, read and written
    draft/           the draft schema, read and written
    nsight/          Nsight Systems exports
    rpd.py         RPD databases

A row is known by its data set and its id, never by process or thread numbers: these repeat on every node.
"""
