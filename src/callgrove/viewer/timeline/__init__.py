"""What profiles did over time, in a bounded number of boxes.

The modules, in the order to read them:

    maker.py   the panel
    events.py  samples and spans as (row, level, name, start, end), chunk by chunk; names and their exact time
    boxes.py   what a page draws: events as they are, or in each bin the name with the largest share
    layers.py  the whole range, and parts of it in finer bins, in as many boxes as there is room for
"""
