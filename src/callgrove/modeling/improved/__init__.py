"""The improved method, and intervals in which measurements lie: opt-in, where Extra-P's models are the default.

The modules, in the order to read them:

    repetitions.py    the noise of series, and whether it only ever adds
    evidence.py       what speaks for every function of one parameter
    evidence_grid.py  the same for two parameters
    intervals.py      where a curve lies, from all functions that something speaks for
    series.py         series of a study through these four
"""
