"""Questions asked of a study, as plain functions.

The modules, in the order to read them:

    options.py        how series are modelled
    functions.py      the terms that models are made of, and fitted functions as columns
    fitting.py        model_study: a model for every series, and what to know before trusting it
    single.py         one parameter: the best term at points that are left out, or two parts
    refining.py       one parameter: exponents found by bisection
    multi.py          several parameters: sums of products of the single terms
    least_squares.py  fits for many series at once; error measures
    improved/         the improved method: evidence for functions, and intervals
    near_equals.py    what functions that fit nearly as well say at a point
    judgement.py      how far a model is to be trusted there, and what is noise
    prediction.py     models at a scale that was not measured, ranked; near equals; curves
    ranking.py        what did not scale: growth, share, loss, and where costs cross
    sentences.py      a study in a few sentences: what will not scale, and how far to trust that
    advice.py         which points to measure next, what they cost and what they tell
    surfaces.py       models of two parameters on a grid, to be drawn
    comparison.py     models of two studies side by side
    stored_models.py  models as a study stores them
    scaling.py        strong scaling, speed-up, efficiency
    model_tables.py   models as tables; sums along the call tree; functions as text

Models are those of Extra-P 4.2.5: the same terms, coefficients and errors, unless the improved method is asked for.
"""
