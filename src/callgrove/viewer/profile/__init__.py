"""Panels of what was measured per context and profile.

The modules, in the order to read them:

    maker.py   all of it as panels
    labels.py  which metrics are shown, what each context costs, and what rows are called
    tree.py    the call tree, its smallest subtrees folded; flat tables, callers, hot paths
    spread.py  cost by profile in a heat map: of everything, and of the costliest functions
"""
