"""OTF2 archives, which Score-P writes, and which Vampir and Scalasca open. Needs the extra `otf2`.

Specification: more-inputs.md 4, trace-outputs.md 5. The modules, in the order to read them:

    writer.py    slices and points -> an archive, by OTF2's own library
    decoder.py   the program that calls the library for reading, in a process of its own
    archive.py   what that program sends; definitions
    records.py   enter and leave records of a file, decoded column by column
    events.py    what it sends of one location -> spans, and what happened in them
    reader.py    locations and messages -> a data set
    dump.py      the raw structure
    format.py    the format of the registry: recognising, checking, dumping
"""
