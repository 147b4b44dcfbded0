"""Questions asked of a study, as plain functions.

The modules, in the order to read them:

    options.py        how series are modelled
    functions.py      the terms that models are made of, and fitted functions as columns
    fitting.py        model_study: a model for every series, and what to know before trusting it
    single.py         one parameter: the best term at points that are left out, or two parts
    refining.py       one parameter: exponents found by bisection
    multi.py          several parameters: sums of products of the single terms
    least_squares.py  fits for many series at once; error measures
    prediction.py     models, stored or new; at a scale that was not measured, ranked; near equals; curves
    scaling.py        strong scaling, speed-up, efficiency
    model_tables.py   models as tables; sums along the call tree; functions as text

Models are those of Extra-P 4.2.5: the same terms, coefficients and errors.
"""
