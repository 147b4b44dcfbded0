"""Pre-release databases: experiment.xml 4.0 + profile.db + cct.db + trace.db [+ src/].

format.py          the format
records.py         byte layouts
files.py           the binary files: where each block and each line lies
writer.py          writes such a database; plan.py where its contexts go; xml_writer.py its experiment.xml
"""
