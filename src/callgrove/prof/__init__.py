"""Measurement directories to one experiment, on one core or on a cluster: the job of hpcprof.

inputs.py         which files were named, and where the files that they mention lie here
nodes.py          the nodes of one file, brought to the rules that all files share
raw_tree.py       trees of (module, address) nodes, merged
survey.py         the first pass: what a batch of files holds, and their merged tree
structures.py     structure files, by the modules that were measured
symbols.py        kernel symbols and logical files
binaries.py       symbols of binaries, and where their debugging information lies
binary_names.py   what a binary says about some addresses, and scopes made of it
name_cache.py     the same, kept on disk
dwarf.py          functions, inlined functions and lines from it
demangling.py     C++ names as people write them
scopes.py         what contexts execute, each kept once
resolution.py     from (module, address) to the scopes around it
call_graphs.py    who calls whom in GPU code, and the call paths that this allows
samples_of_gpu.py the call paths of GPU samples, and their shares
contexts.py       from the merged tree to the calling context tree
quantities.py     metric tables of files, and formulas over them
metric_rows.py    quantities as metric rows, and the columns to show
profiles.py       files as profiles
plan.py           all that the second pass needs, as arrays
costs.py          the second pass: values of a batch of files, in every scope
timelines.py      the second pass: samples, packed as the target stores them
spool.py          what workers hand to the process that writes, through a folder beside the target
experiment.py     all of it as an experiment whose values and samples are read when asked for
conversion.py     both passes on workers, into a writer

Rules: hpcrun-and-prof.md part II, which were compared with what the genuine tool makes of the same files. A node of a
file is an address in a module; a context is a node's address, or one of the scopes around it, below one parent.

    survey    files -> nodes -> merged tree      pairs of trees are merged on the workers
    plan      merged tree -> scopes -> contexts, metric rows, profiles
    costs     files -> values and samples in the ids of the plan
"""
