"""An index of timelines on disk, for pictures and exact sums of any window of billions of spans.

The modules, in the order to read them:

    answers.py   what is asked and answered
"""
