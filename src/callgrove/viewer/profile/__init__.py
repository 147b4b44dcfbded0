"""Panels of what was measured per context and profile.

costs.py     which metrics are shown, and what each context costs
labels.py    what rows are called: name, kind, file, line, module, each combination once
tree.py      the call tree, its smallest subtrees folded
tables.py    flat tables by function, line, loop, file, module; callers bottom-up; hot paths
places.py    where profiles stand in a heat map
spread.py    cost by profile: of everything, and of the costliest functions
maker.py     all of it as panels
"""
