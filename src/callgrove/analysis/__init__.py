"""Questions asked of an experiment, as plain functions. Nothing here asks which profiler made the data.

costs.py      one metric over the tree, exclusive and inclusive
groups.py     contexts grouped by function, line, loop, file, module
columns.py    the columns that a profiler wants shown: formulas
statistics.py what they are made of: sums, counts, minima over threads
flat.py       the flat profile: `top`
trees.py      the call tree from the roots down: `tree`
callers.py    the call tree from the costly functions up: `tree --bottom-up`
metric_tree.py  a metric without the metrics below it
places.py     one metric over machines, nodes, processes and threads
hot_path.py   the costliest call path: `hot`
comparison.py what differs between experiments: `diff`
overview.py   what is in an experiment: `info`
views.py      tables with a title and notes, as the methods of an experiment return them
frames.py     costs of every context in every profile, for pandas and Arrow
by_profile.py what groups of contexts cost in each profile
rows.py       the columns that tables of contexts share
tables.py     an experiment's own tables, streamed: `export`; value_tables.py, trace_tables.py the large ones
summary.py    what a traced run did: `summary`; summary_table.py its rows
summaries.py  what it is made of: sections, divisions, sums; summary_parts.py those of one part of a trace
durations.py  exact statistics of durations, gathered in parts
devices.py    busy, overlapping, idle and why
memory_peaks.py  the most memory in use on each device
"""
