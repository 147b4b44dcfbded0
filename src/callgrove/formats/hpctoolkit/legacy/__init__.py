"""Legacy databases: experiment.xml 2.0 to 2.2 [+ *.metric-db] [+ *.hpctrace or experiment.mt].

format.py          the format, and what `check` and `dump` say
database.py        which parts are there, and the experiment made of them
records.py         byte layouts
xml.py             the tables of its experiment.xml, and what its metrics mean
tree.py            its tree, as contexts of the model, and the values in it
values.py          values of the XML and of metric-db files; traces
"""
