"""What a measured execution is. NumPy only; knows no format.

The modules, in the order to read them:

    contexts.py         regions and the calling context tree, in preorder
    activities.py       what contexts are busy with, by Scalasca's metric tree: computing, MPI, waiting, idle
    profiles.py         profiles with their identifier tuples, and which of them are meant
    system.py           the tree of places that profiles live in
    runs.py             executions with their parameters
    metrics.py          quantities in their scopes; composite values
    values.py           the sparse tensor (profile, context, metric) -> number
    computed_values.py  values in scopes that are not stored; matrices; values of several runs as one
    traces/             samples, spans and counters over time
    experiment.py       all of that together, and what it must satisfy
    methods/            the methods of experiments and studies that mirror verbs: the door to the layers above
    table.py            the result that all layers share
    builder.py          the only way to make an experiment, its contexts and regions
    joining.py          several executions as one experiment
    selection.py        a part of an experiment, itself one
    derived.py          metrics that are formulas over others, and their values in the cells of a view
    formulas.py         arithmetic over metrics: trees, their text, their values
    unit_algebra.py     units of products, ratios and powers
    definitions.py      metrics that a user defines by a formula
    cubepl/             metrics that Cube files define, in a language of their own
    materialised.py     values in place of formulas
    books.py            what a stream was given and what it passed on, added up at both ends
    study/              measured series over parameter points

Everything is immutable once it is made; arrays are columns, and -1 or NaN is absent.
"""
