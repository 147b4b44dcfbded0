"""A SQLite database that somebody else wrote: checked before it is opened, read-only, columns by name.

    database.py      one database, by its pages where they can be read, by SQLite otherwise
    plan.py          which of the two ways is taken, and why
    schema.py        its header, the tables it declares, and which value belongs to which column
    numbers.py       numbers at many places of a file's bytes at once
    pages.py         table b-trees, read straight from the bytes of a file that nobody writes
    records.py       records, taken apart by shape
    tables.py        the rows of a table by columns, many or few
    cells.py         any type in any cell, as numbers, times, texts or JSON
    batch.py         many small files of one run at once
    connection.py    SQLite's own way, and private copies of databases whose writer did not finish
    empty_tables.py  a new database of very many tables, which SQLite fills

No SQL text of a file is ever run: only base tables are read, by quoted names that stand in its schema.
"""
