"""HPCToolkit databases of both generations that are called 4.0.

prerelease.py          the format: experiment.xml + profile.db + cct.db + trace.db, big-endian
prerelease_records.py  its byte layouts
prerelease_files.py    its binary files: where each block lies
experiment_xml.py      the tables and the tree of experiment.xml
release.py             the format: meta.db + profile.db + cct.db + trace.db, little-endian
release_records.py     its byte layouts
release_files.py       its binary files: where each block lies
meta_db.py             the tables and the tree of meta.db
metric_columns.py      the columns of metrics/default.yaml
yaml_subset.py         the part of YAML that this file uses
database.py            what both share: which parts are there, and the experiment made of them
sparse.py              value blocks of profile.db and cct.db
values.py              values by profile or by context, read when asked for
samples.py             trace lines
consistency.py         what `check` verifies
fields.py              what `dump` prints
"""
