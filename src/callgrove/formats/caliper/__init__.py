"""Caliper: files of records (`.cali`) and the JSON-split that cali-query writes; one file, or folders of thousands.

    file --> records: paths, labels and numbers --> contexts, profiles, metrics, runs --> ExperimentBuilder

The modules, in the order to read them:

    records.py     what both kinds of files hold: call paths, labels, tables of numbers, globals
    alike.py       records of one shape, as a matrix of numbers
    outlines.py    files that differ in their numbers alone
    cali.py        the lines of a .cali file
    json_split.py  what cali-query writes with `-q "format json-split"`
    experiment.py  from the records of one file or many to an experiment
    format.py      recognising, reading, checking and printing them

Specification: Caliper's documentation of its data model and of the .cali format, and what genuine files of the versions
2.2 to 2.10 show.
"""
