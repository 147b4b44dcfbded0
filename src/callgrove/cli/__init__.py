"""The command line: `callgrove VERB ...`. verbs/ has a module for each verb, or for some that
belong to each other.

    main.py       arguments -> verb -> exit code; the table of verbs
    parser.py     argparse with our error messages and examples; what was given, as a dataclass of options
    options.py    groups of options that verbs share: how they are declared, and what they hold
    opening.py    what a user names, opened; what is wrong with it, said
    contexts.py   the options that choose contexts and places
    selecting.py  which part of an experiment is wanted
    results.py    what verbs share that write: inputs, how these are matched, targets refused before anything is read
    pages.py      what was given to see an input, for the commands that pages tell
    output.py     tables to stdout or a file, and how tables of costs look
    spread_tables.py  tables over ranks, threads, ...: what fits on a terminal, and heat strips
    comparing.py  how comparisons are told: sentences, tables of what both sides have and of what one has alone
    help.py       `help`: topics, and the pages of the documentation
    diagnosis.py  `info --diagnose`: versions, and the structure of an input without its texts
    manual.py     manual pages, made of the parsers
    rocpd.py      ROCm's rocpd command, translated into verbs
    messages.py   notes, failures and progress on stderr; errors and signals -> exit codes
    bus_errors.py what is said where a mapped file became shorter, or cannot be read

stdout is data, everything else goes to stderr.
"""
