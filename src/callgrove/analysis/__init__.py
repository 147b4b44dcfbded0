"""Questions asked of an experiment, as plain functions. Nothing here asks which profiler made the data.

costs.py      one metric over the tree, exclusive and inclusive
groups.py     contexts grouped by function, line, loop, file, module
flat.py       the flat profile: `top`
trees.py      the call tree from the roots down: `tree`
callers.py    the call tree from the costly functions up: `tree --bottom-up`
hot_path.py   the costliest call path: `hot`
overview.py   what is in an experiment: `info`
tables.py     an experiment's own tables, streamed: `export`
"""
