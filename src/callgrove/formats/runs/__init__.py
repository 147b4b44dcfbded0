"""Folders of runs: executions measured at several parameter points, in any format that holds an execution.

Specification: extrap.md sections 7 and 8 (the folders that Extra-P calls Cube sets). Two layouts are read:

    study/app.p4.n100.r1/profile.cubex      a folder per point, with files that are one run each
    study/app.p4.n100.r1/meta.db ...        the folder is the run itself
    study/app.p4.n100.r1.cubex              (files beside each other are read too)

    folder.py    the format: a folder whose entries say their parameters, or runs whose parameters the user gives

The result is an experiment whose runs carry parameters; `experiment.study()` folds it into series.
"""
