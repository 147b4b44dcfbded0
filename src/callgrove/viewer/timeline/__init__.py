"""What profiles did over time, in a bounded number of boxes.

rows.py        a row for each profile with a trace, by node, rank and device
events.py      samples and spans as (row, level, name, start, end), chunk by chunk, and what was innermost when
legend.py      which names take how much of all time, exactly
cells.py       time by row, level, name and bin: a sum that memory bounds, exact in any number of chunks
stacks.py      call stacks of samples: the frame at each depth
levels.py      cells level by level, and line by line
boxes.py       what a page draws: events as they are, or in each bin the name with the largest share
layers.py      the whole range, and parts of it in finer bins, in as many boxes as there is room for
maker.py       the panel
"""
