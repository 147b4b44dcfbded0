"""From an experiment to a target.

The modules, in the order to read them:

    transfer.py  an experiment, streamed into a writer, or written with one call
    streaming.py  traces that are written while they are measured
    writer.py    what writers share: the order of calls, that a failure leaves nothing, losses in the same words
    outputs.py   files that are written as a stream, or stdout
    targets.py   files and folders that are written beside their place and renamed into it; stale ones
"""
