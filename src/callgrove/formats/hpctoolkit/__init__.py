"""HPCToolkit databases: both generations that are called 4.0, and the legacy one before them.

prerelease.py          the format: experiment.xml + profile.db + cct.db + trace.db, big-endian
prerelease_records.py  its byte layouts
prerelease_files.py    its binary files: where each block lies
experiment_xml.py      the tables of experiment.xml
xml_tree.py            its tree, as contexts of the model
release.py             the format: meta.db + profile.db + cct.db + trace.db, little-endian
release_records.py     its byte layouts
release_files.py       its binary files: where each block lies
meta_db.py             the tables of meta.db
meta_tree.py           the tree of meta.db
release_contexts.py    both as contexts of the model
release_words.py       its numbers in the model's words, for reader and writer

database_writer.py     writes both generations, chunk by chunk
generations.py         what they name or number differently
rows.py                values as rows of a file, with what it wants beside them
metric_plan.py         which metrics it stores, under which ids; statistics.py what its summary holds of them
losses.py              what no database can hold
prerelease_writer.py   what is pre-release in a database: prerelease_plan.py where its contexts go,
                       prerelease_parts.py its binary files, prerelease_losses.py what it cannot hold
metric_table_writer.py, program_tables.py, tree_tags_writer.py    its experiment.xml; tags.py, xml_text.py for all three
view_columns.py        the columns that it asks to show
release_writer.py      what is released in one: release_plan.py, release_parts.py, release_losses.py
meta_db_writer.py      meta.db
profile_writer.py      profile.db
context_major.py       cct.db and the summary, made from profile.db in bounded memory
trace_writer.py        trace.db
block_writer.py        value blocks, packed many at a time
columns_writer.py      metrics/default.yaml

legacy.py              the format: experiment.xml 2.x + metric-db + hpctrace
legacy_records.py      its byte layouts
legacy_xml.py          the tables of its experiment.xml
legacy_tree.py         its tree, as contexts of the model, and the values in it
legacy_metrics.py      what its metrics mean
legacy_database.py     which parts are there, and the experiment made of them
legacy_values.py       values of the XML and of metric-db files
legacy_traces.py       hpctrace files and experiment.mt
legacy_consistency.py  what `check` verifies in it
legacy_fields.py       what `dump` prints of it

columns.py             the columns of metrics/default.yaml, resolved to metric ids
metric_columns.py      what that file says
yaml_subset.py         the part of YAML that it uses
yaml_tokens.py         the lines and scalars of it
database.py            what both share: which parts are there, and the experiment made of them
sparse.py              value blocks of profile.db and cct.db
values.py              values by profile or by context, read when asked for
samples.py             trace lines
consistency.py         what `check` verifies
summaries.py           the stored summary against the threads
fields.py              what `dump` prints
"""
