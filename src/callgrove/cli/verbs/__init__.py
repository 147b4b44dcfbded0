"""The verbs of the command line, one module each; the name says which.

A verb module has a dataclass of options, which inherits the groups of options that the verb shares with others,
`add_arguments(parser)`, which declares them, `run(options) -> int`, and `COMMAND`, which is these three. It imports
NumPy, readers and analyses inside `run`, so that help is immediate.
"""
