""".hpcstruct files: functions, inlined functions, loops and lines of load modules.

The modules, in the order to read them:

    format.py  the format
    tables.py  what such a file says, as tables for looking up addresses, and its XML
"""
