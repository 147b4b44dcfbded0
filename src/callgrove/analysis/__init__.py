"""Questions asked of an experiment, as plain functions. Nothing here asks which profiler made the data.

costs.py             one metric over the tree, exclusive and inclusive
groups.py            contexts grouped by function, line, loop, file, module
columns.py           the columns that a profiler wants shown: formulas over statistics of threads
titled_tables.py     tables with a title and notes, for the library's methods; frames.py costs as data frames
views.py             the flat profile (`top`), the call tree (`tree`), callers, the hot path (`hot`)
comparison.py        what differs between experiments: `diff`
overview.py          what is in an experiment: `info`
tables.py            an experiment's tables, streamed: `export`; value_tables.py the largest of them
summary.py           what a traced run did: `summary`
summary_sections.py  what a summary is made of: sections, divisions, sums that add up in any number of parts
summary_parts.py     the summary of one part of a trace
durations.py         exact statistics of durations, gathered in parts
devices.py           busy, overlapping, idle and why
"""
