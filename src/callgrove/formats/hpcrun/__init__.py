"""HPCToolkit's measurements: what `hpcrun` writes for every thread, before any analysis.

The modules, in the order to read them:

    format.py        the format: .hpcrun files, or a folder of them; what `check` verifies
    records.py       byte layouts of versions 02.00, 03.00 and 04.00
    primitives.py    checked reading; header, epoch header, metric, loadmap entry, pair: read, write, print
    measurement.py   a file in memory, with the tree of its nodes
    files.py         files of any version; their names
    placeholders.py  nodes that are no addresses
    regions.py       what nodes execute, and one tree of many
    values.py        metric rows, and values read when asked for
    experiment.py    all of it as an experiment, with the traces beside the files
    dump.py          every field, as text and as JSON
    writer.py        any experiment as measurement files
    write_plan.py    where its contexts and metrics go in them
    hpctrace/        a trace by itself
    hpcstruct/       the structure of load modules
"""
