"""Pre-release databases: experiment.xml 4.0 + profile.db + cct.db + trace.db [+ src/].

The modules, in the order to read them:

    format.py      the format
    files.py       the binary files: byte layouts, and where each block and each line lies
    writer.py      writes such a database, and tells what it cannot hold
    plan.py        where the contexts of an experiment go in it
    xml_writer.py  its experiment.xml
"""
