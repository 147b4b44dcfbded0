"""From an experiment to a target.

The modules, in the order to read them:

    transfer.py  an experiment, streamed into a writer, or written with one call
    writer.py    what writers share: the order of calls, and that a failure leaves nothing
    targets.py   files and folders that are written beside their place and renamed into it; stale ones
    losses.py    what more than one format cannot hold, in the same words
"""
