"""Questions asked of a study, as plain functions.

    fitting.py        model_study: a model for every series
    asking.py         models as a caller asks for them: of some series, stored or new
    options.py        how series are modelled
    terms.py          the terms that models are made of
    single.py         one parameter: the best term at points that are left out
    refining.py       one parameter: exponents found by bisection
    segmented.py      one parameter: two parts where the behaviour changes
    multi.py          several parameters: sums of products of the single terms
    lines.py          which points the single parameters of several are modelled with
    designs.py, least_squares.py, ties.py   fits for many series at once, and where rounding decides
    costs.py          error measures
    functions.py      fitted functions as columns
    notation.py       functions as text
    cautions.py       what to know before trusting a model
    runner_ups.py     functions that fit nearly as well
    prediction.py     models at a scale that was not measured, ranked
    scaling.py        strong scaling, speed-up, efficiency
    calltree.py       sums along the call tree
    stored.py         models that a file stores
    tables.py, curves.py   models as tables, and as what a plot shows

Models are those of Extra-P 4.2.5: the same terms, coefficients and errors.
"""
