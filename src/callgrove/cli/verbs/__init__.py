"""The verbs of the command line, one module each, which has its name; those of the algebra share algebra.py.

A verb module has a dataclass of options, which inherits the groups of options that the verb shares with others,
`add_arguments(parser)`, which declares them, `run(options) -> int`, and a `Command` of these three, which the table of
verbs names. It imports NumPy, readers and analyses inside `run`, so that help is immediate.
"""
