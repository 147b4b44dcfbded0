"""What a measured execution is. NumPy only; knows no format.

    experiment.py      everything measured, and what it must satisfy
    contexts.py        regions and the calling context tree, in preorder
    profiles.py        profiles and where they live; runs.py executions with their parameters
    metrics.py         quantities in their scopes; composite values
    values.py          the sparse tensor (profile, context, metric) -> number
    chained_values.py  the values of many runs as one, never copied
    scopes.py          exclusive and inclusive where they are not stored; matrices
    formulas.py        arithmetic over metrics
    traces/            samples, spans and counters over time
    study/             measured series over parameter points
    methods.py         the methods of experiments and studies that mirror verbs: the door to the layers above
    builder.py         the only way to make an experiment; context_builder.py its contexts and regions
    joining.py         several executions as one experiment
    selection.py       a part of an experiment, itself one
    books.py           what a stream was given and what it passed on, added up at both ends
    table.py           the result that all layers share

Everything is immutable once it is made; arrays are columns, and -1 or NaN is absent.
"""
