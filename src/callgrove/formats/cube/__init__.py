"""Cube 4 (`.cubex`): what Score-P, Scalasca and CubeLib write.

Specification: the Cube 4 file format, and what CubeLib 4.8 and CubeW really do where it is silent or wrong.

    profile.cubex          a tar archive, in rare cases gzipped
    |-- anchor.xml         metrics, regions, call tree, system tree, topologies; plain or gzipped
    |-- N.index            which rows of metric N are stored: positions in a traversal of the call tree
    |-- N.data             the rows: one value for each location, plain or each row a zlib stream
    |-- ghost_N.*          the same of metrics that are hidden
    `-- remapping.spec     and any other attachment

Columns are the locations in ascending order of their ids. Rows of exclusive metrics are numbered in preorder, rows of
inclusive and simple ones in a wide order (`vocabulary.py`).

Deviations that are honoured: 8-byte integers in the tables of compressed data; an index without a count; bare
attribute values and raw `<` in CubePL; checksums that are 32 too low; one more block of zeros after members whose
size is a multiple of 512; minima and maxima in cells where nothing was measured; counters that went below zero.

The modules, in the order to read them:

    format.py         detection, `check`, `dump`, and what the format can do
    reading.py        an experiment put together, its values read when asked for
    anchor.py         anchor.xml as flat tables
    tables.py         from the anchor to the model: metrics, contexts, system, topologies
    vocabulary.py     names, data types and row orders of Cube
    rows.py           index and data of one metric, checked
    specification.py  remapping.spec: other metrics for an experiment
    clusters.py       iterations out of clustered call trees
    writer.py         writes, from values in any order, and tells what a Cube file cannot hold
    plan.py           where metrics, contexts and locations go in a Cube file
    anchor_writer.py  its anchor.xml
    formula_writer.py formulas of users as CubePL
"""
