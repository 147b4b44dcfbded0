"""Measurement directories to one experiment, on one core or on a cluster: the job of hpcprof.

The modules, in the order to read them:

    conversion.py    both passes on workers, into a writer
    survey.py        which files were named; the first pass: what a batch of files holds, and their merged tree
    nodes.py         trees of (module, address) nodes, by the rules that all files share, and merged
    contexts.py      the calling context tree made of the merged one
    resolution.py    from (module, address) to the scopes around it
    binaries.py      symbols of binaries, their debugging information, and the cache of both
    binary_names.py  what a binary says about some addresses: symbols, DWARF, demangled names
    gpu_samples.py   the call paths of GPU samples, and their shares
    metrics.py       metric tables of files as metric rows, and the columns to show
    second_pass.py   values of a batch of files
    samples.py       samples of a trace
    spool.py         what workers hand to the process that writes, through a folder beside the target
    experiment.py    all of it as an experiment whose values and samples are read when asked for

Rules: hpcrun-and-prof.md part II, which were compared with what the genuine tool makes of the same files. A node of a
file is an address in a module; a context is a node's address, or one of the scopes around it, below one parent.

    survey    files -> nodes -> merged tree      pairs of trees are merged on the workers
    plan      merged tree -> scopes -> contexts, metric rows, profiles
    costs     files -> values and samples in the ids of the plan
"""
