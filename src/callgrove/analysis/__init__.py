"""Questions asked of an experiment, as plain functions. Nothing here asks which profiler made the data.

The modules, in the order to read them:

    costs.py             one metric over the tree; contexts grouped by function, line, loop, file, module
    views.py             the flat profile (`top`), the call tree (`tree`), callers, the hot path (`hot`)
    metric_tree.py       the tree of metrics with shares (`tree --metrics`)
    columns.py           the columns that a profiler wants shown: formulas over statistics of threads
    spread/              how costs are spread over ranks, threads, GPUs, nodes, runs: `imbalance`, `top --by rank`
    comparison/          what differs between experiments, and between studies: `diff`
    gate/                did repetitions become slower: `diff --left --right`
    explain/             a run in a few sentences, and why another one takes longer: `explain`, `why`
    efficiency.py        how efficiently runs use processes, threads and devices: `pop`
    efficiency_figures.py  the figures of an audit, and what was found of them
    time_use.py          what threads of a run spent their time on, and how its devices were used
    overview.py          what is in an experiment: `info`
    inventory.py         the same as data, for programs: `info --format json`
    value_tables.py      values as a table: stored, computed in a scope, or evaluated from a formula
    tables.py            an experiment's tables, streamed: `export`
    method_results.py    what the library's methods return: tables with titles and notes
    summary.py           what a traced run did: `summary`
    messages.py          messages between processes, and collective operations
    summary_sections.py  what a summary is made of: sections, divisions, sums
    durations.py         exact statistics of durations, gathered in parts
    summary_parts.py     the summary of one part of a trace
    devices.py           how devices were used: busy, overlapping, idle and why
    timeline/            what went on in a window of time, exactly: `timeline`
    timeline_index/      an index of timelines on disk, for pictures and exact sums of any window
"""
