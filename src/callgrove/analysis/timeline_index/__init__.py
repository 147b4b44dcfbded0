"""An index of timelines on disk, for pictures and exact sums of any window of billions of spans.

    traces --> builder.py --> nested.py --> levels.py     cells and histograms        \\
               spool.py       what is       items.py      spans and samples by line   --> layout.py: columns, mapped
               by track       innermost                                               /
    questions --> index.py --> pictures.py, legends.py, details.py --> windows.py --> layout.py

The modules, in the order to read them:

    answers.py   what is asked and answered
    index.py     an index: opened or built, and asked while it is built
    cache.py     where indexes are kept, their keys, and which go
    builder.py   how one is built: names and times first, then line by line
    preview.py   what is there before anything is complete
    sources.py   names as numbers, samples in order, spans by track
    tracks.py    several tracks side by side, a long one in parts
    spool.py     spans from file order to tracks, in bounded memory
    nested.py    spans that nest: what is innermost when
    levels.py    stretches of time added up into cells and histograms, level by level
    items.py     spans and samples as they are kept, in blocks
    layout.py    the files: columns that grow, and are mapped
    windows.py   items of windows, from the blocks that these touch
    pictures.py  cells of a window, from pages or items
    legends.py   the time of each name in a window
    details.py   single spans, stacks, the next of a name, counters
"""
