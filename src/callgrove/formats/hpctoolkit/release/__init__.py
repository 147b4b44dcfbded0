"""Released databases: meta.db + profile.db + cct.db [+ trace.db] [+ metrics/default.yaml] [+ src/].

The modules, in the order to read them:

    format.py          the format, and the contexts of the model
    records.py         byte layouts
    vocabulary.py      numbers of the files in the model's words
    meta_db.py         the tables and the tree of meta.db
    files.py           the binary files: where each block and each line lies
    shown_columns.py   metrics/default.yaml: the columns to show
    yaml_subset.py     the part of YAML that it uses
    writer.py          writes such a database, and tells what it cannot hold
    plan.py            where the contexts of an experiment go in it
    meta_db_writer.py  its meta.db
"""
