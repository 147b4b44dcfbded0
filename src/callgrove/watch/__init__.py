"""A folder that a job is still writing: what has arrived, what is new, and what it comes to so far.

The modules, in the order to read them:

    contributions.py  what one complete file adds: ranks, times, the costs of its functions; why a file is not complete
    watching.py       looks at a folder, one after the other: what changed, which files may be read, the totals

Nothing here prints, waits or knows a clock: whoever looks says what time it is.
"""
