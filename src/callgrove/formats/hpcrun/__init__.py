"""HPCToolkit's measurements: what `hpcrun` writes for every thread, before any analysis.

format.py          the format: .hpcrun files, or a folder of them
records.py         byte layouts of versions 02.00, 03.00 and 04.00
cursor.py          checked reading from one place on
primitives.py      header, epoch header, metric, loadmap entry, pair: read, write, print
nodes.py           the tree of a file as arrays
measurement.py     a file in memory
version_02.py      versions 02.00 and 03.00, in both dialects
version_04.py      version 04.00
files.py           files of any version; their names
placeholders.py    nodes that are no addresses
regions.py         what nodes execute
merging.py         one tree of many
metrics.py         metric tables as metric rows
values.py          values, read when asked for
samples.py         the traces beside the files
experiment.py      all of it as an experiment
listing.py         every field, as text and as JSON
overview.py        a file's summary and tree, as text
fields.py          every field with its offset
consistency.py     what `check` verifies
writer.py          any experiment as measurement files
write_contexts.py  where its contexts go
write_metrics.py   where its metrics go
write_profile.py   one profile of it
spill.py           what waits on disk until then

hpctrace.py          the format: a trace by itself
hpctrace_records.py  its bytes
hpctrace_samples.py  its samples in the model's ids
hpctrace_text.py     its fields, as text
hpctrace_writer.py   any profile's samples as such a trace

hpcstruct.py         the format: the structure of load modules
hpcstruct_reader.py  its XML
hpcstruct_tables.py  what it says, as tables for looking up addresses
hpcstruct_ranges.py  address ranges that must not overlap
"""
