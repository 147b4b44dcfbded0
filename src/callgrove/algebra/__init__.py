"""Experiments made of experiments. Nothing here asks which profiler made the data.

The modules, in the order to read them:

    operations.py  merge, mean, diff: several experiments become one
    cutting.py     part (some of the profiles), cut (other roots, pruned calls), common (the call tree that all have)
    selecting.py   which contexts a selection keeps, and which take the cost of the others
    folding.py     the tree and the values that are left when contexts go and others take their cost
    window_costs.py  the costs of a window of time, made of traces
    remapping.py   remap: metrics as a tree, by a specification or by what contexts do
    idle_threads.py  what formulas of such a tree cannot say: idle threads, limited parallelism, imbalance
    metric_rows.py   an experiment with another table of metrics
    profiles.py    which profiles and runs of several experiments are the same, and where they live
    operands.py    which metric rows the result has; an input's values in the ids of the result, tile by tile
    formulas.py    which derived metrics stay formulas, and which become values
    cells.py       values of several inputs, sorted by cell, and the rules that make one of them
    traces.py      the traces of several inputs as one
    anonymizing.py   other names for everything that is named, over the same structure and numbers

Values are computed when they are asked for: memory holds a few profiles, or one metric, of every input. All scopes of
a sum are sums, so sums, means and differences are formed in the scope that is stored; what chooses among values chooses
exclusive ones and computes the other scopes from them.
"""
