"""Bytes without meaning: where they come from and how they are read safely.

The modules, in the order to read them:

    files.py      one memory-mapped file, every access checked; parts of files; what a user points at
    reading.py    files read piece by piece into memory that is kept
    file_states.py  files as they were: whether one was replaced, removed, added, or is still being written
    archives.py   the members of a tar archive; compressed bytes, never inflated beyond a limit
    compressed.py gzip, zstd and others as streams, never inflated beyond a limit
    manifest.py   digests of files, and what differs from them later
    xml.py        XML as a stream, entities refused
    text_rows.py  rows of text made of columns, many at once
    protobuf.py   protocol buffers, written
    protobuf_reader.py  protocol buffers, read: the fields of many messages at once
    msgpack.py    MessagePack, read
    sqlite/       a SQLite file: pages, records, tables, many files at once, and SQLite's own way to it

Nothing here trusts a number that it read.
"""
