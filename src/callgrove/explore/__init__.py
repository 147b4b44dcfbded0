"""An experiment in an interactive terminal: `callgrove explore`.

The modules, in the order to read them; all but the last two know nothing of terminals:

    measures.py   the columns of rows: costs of one experiment, or of two and their difference
    views.py      rows and what lies below each: the call tree, functions, lines, files; callers
    listing.py    the rows on the screen: folding, sorting, the hot path
    searching.py  contexts by name, the next and the previous one, and what all of them cost
    details.py    source lines of a row, and how its cost is spread over ranks or threads
    session.py    what is looked at: experiment, metric, filter, view; makes all of the above
    layout.py     rows as text in a width
    widgets.py    rows as a widget of textual, help, the choice of a metric
    app.py        the screen, and what keys do

No row is an object: views keep arrays over contexts, and children are put in order when a row is unfolded. So millions
of contexts open as fast as they are read.
"""
