"""The language in which contexts are chosen: call paths, names, conditions over columns and costs.

    solve -> ** -> MPI_*[?time > 5%]

The modules, in the order to read them:

    syntax.py       the grammar: a text becomes steps and conditions, or an error that says where it is wrong
    expressions.py  globs and regular expressions, in time that is linear in the length of a name
    paths.py        call paths, over which a regular expression is walked along the tree
    conditions.py   conditions over columns: those of contexts, or those of a table that is shown
    columns.py      what conditions can ask of contexts; what is nested in a function
    hatchet.py      Hatchet's queries in this language
    matching.py     which contexts a pattern finds, and which lie on the paths that it matches
    tables.py       conditions over the rows of a table that is shown

The selection engine of the algebra makes experiments of what is chosen here.
"""
