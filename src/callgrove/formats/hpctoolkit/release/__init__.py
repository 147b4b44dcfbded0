"""Released databases: meta.db + profile.db + cct.db [+ trace.db] [+ metrics/default.yaml] [+ src/].

The modules, in the order to read them:

    format.py          the format, and the contexts of the model
    meta_db.py         the tables and the tree of meta.db
    files.py           the binary files: byte layouts, their numbers in the model's words, where each block lies
    shown_columns.py   metrics/default.yaml: the columns to show
    yaml_subset.py     the part of YAML that it uses
    writer.py          writes such a database, and tells what it cannot hold
    meta_db_writer.py  its meta.db: where the contexts of an experiment go, and the tables
"""
