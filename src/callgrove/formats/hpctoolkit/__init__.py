"""HPCToolkit databases: both generations that are called 4.0, and the legacy one before them.

The modules, in the order to read them:

    release/            meta.db + profile.db + cct.db + trace.db, little-endian
    prerelease/         experiment.xml + profile.db + cct.db + trace.db, big-endian
    legacy/             experiment.xml 2.x + metric-db + hpctrace

What they share when they are read:

    database.py         which parts are there, and the experiment made of them
    identifiers.py      the identifier tuples of all profiles as columns
    experiment_xml.py   the tables and the tree of experiment.xml
    values.py           values by profile or by context, and lines of traces, read from their blocks when asked for
    check.py            what `check` verifies
    dump.py             what `dump` prints

What they share when they are written:

    database_writer.py  writes both generations, chunk by chunk
    metric_plan.py      which metrics are stored, under which ids; what generations name or number differently
    column_formulas.py  derived metrics as columns to show, and back
    stored_rows.py      values as rows of a file, with what it wants beside them
    value_writers.py    profile.db, and cct.db from it in bounded memory
    trace_writer.py     trace.db, many lines at a time
    statistics.py       what the summary holds of every metric
"""
