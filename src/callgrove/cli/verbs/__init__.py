"""The verbs of the command line, one module each; the name says which.

A verb module has `add_arguments(parser)` and `run(args) -> int`, and imports NumPy, readers and analyses inside `run`,
so that help is immediate.
"""
