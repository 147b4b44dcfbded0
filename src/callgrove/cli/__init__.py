"""The command line: `callgrove VERB ...`. One small module per verb.

    main.py      arguments -> verb -> exit code
    verbs.py     the table of verbs
    parser.py    argparse with our error messages
    options.py   arguments that verbs share, and what they mean
    output.py    tables to stdout or a file
    messages.py  notes and failures on stderr; errors -> exit codes
    progress.py  a progress bar on a terminal

A verb module has `add_arguments(parser)` and `run(args) -> int`, and imports NumPy, readers and analyses inside `run`,
so that help is immediate. stdout is data, everything else goes to stderr.
"""
