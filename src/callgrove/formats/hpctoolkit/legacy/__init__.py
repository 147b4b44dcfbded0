"""Legacy databases: experiment.xml 2.0 to 2.2 [+ *.metric-db] [+ *.hpctrace or experiment.mt].

The modules, in the order to read them:

    format.py          the format, the parts that are there, and the experiment made of them
    experiment_xml.py  the tables of its experiment.xml, its tree as contexts, and the values in it
    values.py          byte layouts and values of metric-db files; traces
"""
