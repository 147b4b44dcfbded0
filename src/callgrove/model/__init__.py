"""What a measured execution is. NumPy only; knows no format.

    arrays.py      names for the types of columns; texts.py strings by number
    contexts.py    regions and the calling context tree, in preorder
    orders.py      passes over a tree: preorder, depths, sums over subtrees
    profiles.py    profiles and their identifier tuples
    system.py      where profiles live; topologies
    runs.py        executions with their parameters
    metrics.py     quantities in their scopes; composite values
    values.py      the sparse tensor (profile, context, metric) -> number
    chains.py      the values of many runs as one, never copied
    books.py       what a stream was given and what it passed on, added up at both ends
    scopes.py      exclusive and inclusive where they are not stored
    matrices.py    quantities in a scope as matrices, contexts x profiles
    composites.py  values with several fields
    traces.py      samples and spans over time; selected_traces.py some of them
    side_rows.py   which rows of side tables belong to which spans
    span_order.py  spans in the order of time; lanes.py rows for those that overlap
    span_profile.py  a calling-context profile folded from spans; launches.py which call launched an operation
    memory_use.py  memory in use over time; region_names.py kernels under the name of their range
    devices.py     what is known of devices
    experiment.py  all of it together; methods.py what can be asked of it, the one door to the layers above
    builder.py     the only way to make an experiment; context_builder.py its contexts and regions
    region_table.py  regions in the making, each kept once
    invariants.py  what every experiment must satisfy
    selection.py   a part of an experiment, itself one; renumbering.py its ids; windows.py parts of time
    joining.py     several executions as one experiment; run_names.py what their names say
    study.py       measured series over parameter points
    study_builder.py, study_invariants.py  how a study is made, and what it must satisfy
    study_books.py  what of a study was given to a writer and what it wrote
    folding.py     from runs with parameters to a study; completing.py series that lack points
    function_text.py  functions of models, as text
    unify.py       trees of several runs matched by call path
    intervals.py   union, overlap and nesting of intervals
    grouping.py    rows with equal keys, in columns of millions
    formulas.py    arithmetic over metrics; expressions.py its trees
    table.py       the result that all layers share
    notebook.py    what notebooks show of all this
    visible.py     texts from files, made visible

Everything is immutable once it is made; arrays are columns, and -1 or NaN is absent.
"""
