"""Experiments where people work already: frames of pandas, Polars and Arrow, graphs of networkx, Hatchet and Thicket;
and experiments made of frames.

The modules, in the order to read them:

    costs.py         costs of every context in every profile as columns: what every frame is made of
    data_frames.py   the long and the wide frame; pandas, Polars, Arrow; networkx
    sheets.py        what a frame says, without the frame; the experiment that is made of it
    from_frames.py   a frame as such a sheet: our own long one, or a plain one with names, paths or parents
    graph_frames.py  a GraphFrame of Hatchet, a Thicket, and an experiment of either
    hatchet_nodes.py its nodes

Packages of others are imported when a function needs them. One that is missing is an error that says how to install it.
"""
