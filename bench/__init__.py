"""Speed and memory, as ratios against a floor or a peer in one run on one machine.

__main__.py    python -m bench [NAME...]: runs benches, prints a table, writes RESULTS.md
generate.py    makes a released HPCToolkit database of any size
database/      what it is made of: the tree, the costs, the files
series.py      makes studies of any number of series
many_series.py the peak memory of modelling many series
cases/         one module per bench
conditions.py  sizes, scales, where databases are kept
timing.py      interleaved repeats
memory.py      the peak memory of work in a process of its own
touched.py     which bytes of which file were asked for
results.py     findings, as a table and as RESULTS.md
peers/         the tools compared with; peers.md says what they can do
"""
