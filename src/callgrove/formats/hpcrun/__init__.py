"""HPCToolkit's measurements: what `hpcrun` writes for every thread, before any analysis.

The modules, in the order to read them:

    format.py       the format: .hpcrun files, or a folder of them, as an experiment; what `check` verifies
    primitives.py   byte layouts; checked reading; header, epoch header, metric, loadmap entry, pair: read, write, print
    measurement.py  a file in memory, with the tree of its nodes
    files.py        files of any version; their names
    regions.py      what nodes execute, placeholders among them, and one tree of many
    values.py       metric rows, and values read when asked for
    dump.py         every field, as text and as JSON
    writer.py       any experiment as measurement files
    write_plan.py   where its contexts and metrics go in them
    hpctrace.py     .hpctrace files: what one thread or GPU stream was doing, read and written
    hpctrace_format.py  such a trace as an experiment of one profile
    hpcstruct.py    .hpcstruct files: functions, inlined functions, loops and lines of load modules
    hpctrace/        a trace by itself
    hpcstruct/       the structure of load modules
"""
