"""Cube 4 (`.cubex`): what Score-P, Scalasca and CubeLib write.

Specification: the Cube 4 file format, and what CubeLib 4.8 and CubeW really do where it is silent or wrong.

    profile.cubex          a tar archive, in rare cases gzipped
    |-- anchor.xml         metrics, regions, call tree, system tree, topologies; plain or gzipped
    |-- N.index            which rows of metric N are stored: positions in a traversal of the call tree
    |-- N.data             the rows: one value for each location, plain or each row a zlib stream
    |-- ghost_N.*          the same of metrics that are hidden
    `-- remapping.spec     and any other attachment

Columns are the locations in ascending order of their ids. Rows of exclusive metrics are numbered in preorder, rows of
inclusive and simple ones in a wide order (`traversal.py`).

Deviations that are honoured: 8-byte integers in the tables of compressed data; an index without a count; bare
attribute values and raw `<` in CubePL; checksums that are 32 too low; one more block of zeros after members whose
size is a multiple of 512; minima and maxima in cells where nothing was measured; counters that went below zero.

    format.py        detection, and what the format can do; reading.py puts an experiment together
    anchor.py        anchor.xml as flat tables; cubepl_text.py repairs the XML that CubeLib writes around CubePL
    tables.py        from the anchor to the model: metrics, contexts, system, topologies
    words.py         names and types of Cube; metric_words.py what only Cube's metrics say
    value_types.py   the data types; scale_functions.py the one that is a function
    traversal.py     row positions
    rows.py          index and data of one metric, checked
    values.py        values in the model's ids, read when asked for
    clusters.py      iterations out of clustered call trees
    writer.py        writes: plan.py and places.py say what goes where, anchor_writer.py makes the XML, spool.py makes
                     rows out of any order, tar_writer.py the archive, losses.py tells what a Cube file cannot hold
    consistency.py   what `check` looks for; fields.py every field, for `dump`
"""
