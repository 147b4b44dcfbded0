"""The verbs of the command line: a module each, which has its name, or one for some that belong to each other.

    views.py    top, tree, hot
    scaling/    model, predict; advise
    lasting/    watch; mcp
    algebra.py  merge, mean, cut, part, common
    info.py     info, formats
    dump.py     dump, check
    gate.py     diff --left --right, of diff
    report.py   report, view

A verb module has a dataclass of options, which inherits the groups of options that the verb shares with others,
`add_arguments(parser)`, which declares them, `run(options) -> int`, and a `Command` of these three, which has the
name of the verb in capitals. It imports NumPy, readers and analyses inside `run`, so that help is immediate.
"""
