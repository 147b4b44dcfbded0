"""What went on in a window of time, as exact sums: `timeline`.

The modules, in the order to read them:

    items.py       what goes on: functions, spans, their kinds and classes, as numbers
    stretches.py   samples and spans as stretches of time that add up to the window
    sums.py        exact sums of stretches by place, item and bin
    statistics.py  the table, its notes, and figures that are made of its sums
    dominant.py    a picture: for each line and bin, what took the most time
    phases.py      sequences of names that repeat: the iterations of a loop
"""
