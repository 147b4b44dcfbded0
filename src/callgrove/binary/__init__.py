"""Bytes without meaning: where they come from and how they are read safely.

    sources.py   a file, a folder or a set of files, by content and not by name
    filebytes.py one memory-mapped file; every access is checked against its size and counted
    filepart.py  a part of a file, copied without passing through this process
    idmap.py     a file's own sparse ids to dense ones
    inflating.py compressed bytes, never inflated beyond a limit
    tar.py       the members of a tar archive, found by their headers; nothing is ever extracted
    text_rows.py rows of text made of columns, many at once
    xml.py       XML as a stream, entities refused

Nothing here trusts a number that it read.
"""
