"""What a measured execution is. NumPy only; knows no format.

    contexts.py    regions and the calling context tree, in preorder
    orders.py      passes over a tree: preorder, depths, sums over subtrees
    profiles.py    profiles and their identifier tuples
    system.py      where profiles live; topologies
    runs.py        executions with their parameters
    metrics.py     quantities in their scopes; composite values
    values.py      the sparse tensor (profile, context, metric) -> number
    chains.py      the values of many runs as one, never copied
    scopes.py      exclusive and inclusive where they are not stored
    traces.py      samples and spans over time
    experiment.py  all of it together
    builder.py     the only way to make an experiment; context_builder.py its contexts and regions
    invariants.py  what every experiment must satisfy
    study.py       measured series over parameter points
    study_builder.py, study_invariants.py  how a study is made, and what it must satisfy
    folding.py     from runs with parameters to a study
    unify.py       trees of several runs matched by call path
    intervals.py   union, overlap and nesting of intervals
    formulas.py    arithmetic over metrics
    table.py       the result that all layers share
    notebook.py    what notebooks show of all this
    visible.py     texts from files, made visible

Everything is immutable once it is made; arrays are columns, and -1 or NaN is absent.
"""
