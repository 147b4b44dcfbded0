"""The command line: `callgrove VERB ...`. One small module per verb.

    main.py      arguments -> verb -> exit code
    verbs.py     the table of verbs
    parser.py    argparse with our error messages
    options.py   arguments that verbs share, and what they mean
    targets.py   what is to be written, refused before anything is read
    opening.py   what a user names, opened; what is wrong with it, said
    selecting.py which part of an experiment is wanted
    modelling.py what `model` and `predict` share; results.py the verbs that make an experiment of experiments
    output.py    tables to stdout or a file; parquet_output.py to a Parquet file; viewing.py how tables of costs look
    ending.py    what a signal that ends the program means
    messages.py  notes and failures on stderr; errors -> exit codes
    progress.py  a progress bar on a terminal
    help_examples.py  what one may type, at the end of each `--help`

    rocprofv3_merge.py  a command of its own

A verb module has `add_arguments(parser)` and `run(args) -> int`, and imports NumPy, readers and analyses inside `run`,
so that help is immediate. stdout is data, everything else goes to stderr.
"""
