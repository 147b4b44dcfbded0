"""Recorded events, whoever recorded them: from data sets to one experiment.

A reader of traces gives data sets; everything else is here. The modules, in the order to read them:

    dataset.py     what a reader gives: processes, lanes, devices, and events in chunks of columns
    columns.py     a data set for readers that decode a file once into columns, in bounded memory
    arguments.py   arguments of events, as numbers and as texts
    begin_end.py   begins and ends that were recorded apart, as spans
    kinds.py       what kind of span a category means
    ranks.py       which rank a process is
    places.py      hosts, processes with ranks, devices and lanes of all data sets, as profiles and a system tree
    spans.py       events of any number of data sets as the spans of one experiment, on one clock
    runs.py        which processes are of which run
    experiment.py  data sets -> experiment
    checks.py      what `check` says about events

A row is known by its data set and its id, never by process or thread numbers: these repeat on every node.
"""
