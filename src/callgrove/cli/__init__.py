"""The command line: `callgrove VERB ...`. verbs/ has one small module per verb.

    main.py             arguments -> verb -> exit code; the table of verbs
    parser.py           argparse with our error messages and examples; what was given, as a dataclass of options
    options.py          groups of options that verbs share: how they are declared, and what they hold
    targets.py          what is to be written, refused before anything is read
    opening.py          what a user names, opened; what is wrong with it, said
    selecting.py        which part of an experiment is wanted
    results.py          the verbs that make an experiment of experiments
    scaling_options.py  what `model` and `predict` share
    output.py           tables to stdout or a file; parquet_output.py to a Parquet file; viewing.py how costs look
    messages.py         notes and failures on stderr; errors and signals -> exit codes
    progress.py         a progress bar on a terminal

    rocprofv3_merge.py  a command of its own

stdout is data, everything else goes to stderr.
"""
