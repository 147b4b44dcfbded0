"""Legacy databases: experiment.xml 2.0 to 2.2 [+ *.metric-db] [+ *.hpctrace or experiment.mt].

The modules, in the order to read them:

    format.py    the format, and what `check` and `dump` say
    database.py  which parts are there, and the experiment made of them
    xml.py       the tables of its experiment.xml, and what its metrics mean
    tree.py      its tree, as contexts of the model, and the values in it
    records.py   byte layouts
    values.py    values of the XML and of metric-db files; traces
"""
