"""The viewer: a page whose data come from a local server, a little at a time.

The modules, in the order to read them:

    parameters.py  what a request may ask, checked and bounded
    inputs.py      what was opened: how far it is, whether its files are still the same
    looks.py       an input as somebody looks at it: with metrics that were typed, filtered by a pattern, in a metric
    timelines.py   indexes of timelines, and the rows that their lines make
    rows.py        rows of views, a few at a time: children of one, hits of a search
    flame.py       flame graphs, a part at a time
    sql.py         tables that can be asked, and answers to queries
    comparing.py   two or more inputs side by side
    system.py      where the cost of a row is: ranks, threads, source lines
    tabs.py        tabs of an input, made of the report's panels when one is opened
    timeline_answers.py  the time of names in any window of a timeline, what was open when, how long spans were
    timeline_pictures.py pictures of any window, and of what is not complete yet
    span_details.py      single spans: what the file tells of one, what launched it
    answers.py     requests by name: each makes a document of an input
    guard.py       who may ask: the token, the host and the origin of a request
    app.py         the application: page, modules, answers, each on a bounded number of threads
    running.py     the socket, the address that is printed, and when the server ends

`static/serve.js` is where the page begins. Starlette and uvicorn come with the extra `viewer`.
"""
