"""Studies: measured series over parameter points.

The modules, in the order to read them:

    series.py               a study, its models, and what it must satisfy
    builder.py              how a study is made
    call_paths.py           the call paths of a tree, and formulas at them
    arithmetic.py           sums and maxima along the call tree, energy, arithmetic intensity
    run_values.py           what one run has of a metric at each call path
    from_runs.py            from runs with parameters to a study
    fill_missing_points.py  series that lack points, made part of the call path above them
    books.py                what a writer of series was given and what it wrote
"""
