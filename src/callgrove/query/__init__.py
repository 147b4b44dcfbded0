"""SQL over experiments and studies.

The modules, in the order to read them:

    sql.py           `sql`: find out which columns a query needs, load these, run it
    relations.py     what a table is to SQL, and what an engine does; spans as such tables
    catalog.py       all tables of all inputs, those of `export` among them
    engines.py       Python's own SQLite; DuckDB, with the extra `sql`
    rocpd_views.py   spans under the names of rocprofv3's own views
    rocpd_things.py  its views of processes, threads, kernel symbols and counters; its sums, by name and by device
"""
