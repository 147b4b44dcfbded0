"""Released databases: meta.db + profile.db + cct.db [+ trace.db] [+ metrics/default.yaml] [+ src/].

format.py          the format, and the contexts of the model
records.py         byte layouts; vocabulary.py its numbers in the model's words
files.py           the binary files: where each block and each line lies
meta_db.py         the tables and the tree of meta.db
shown_columns.py   metrics/default.yaml: the columns to show; yaml_subset.py the part of YAML that it uses
writer.py          writes such a database; plan.py where its contexts go; meta_db_writer.py its meta.db
"""
