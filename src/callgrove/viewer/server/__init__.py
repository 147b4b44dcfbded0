"""The viewer: a page whose data come from a local server, a little at a time.

The modules, in the order to read them:

    parameters.py  what a request may ask, checked and bounded
    inputs.py      what was opened: how far it is, whether its files are still the same
    looks.py       an input as somebody looks at it: with metrics that were typed, filtered by a pattern, in a metric
    rows.py        rows of views, a few at a time: children of one, hits of a search
    system.py      where the cost of a row is: ranks, threads, source lines
    tabs.py        tabs of an input, made of the report's panels when one is opened
    answers.py     requests by name: each makes a document of an input
    guard.py       who may ask: the token, the host and the origin of a request
    app.py         the application: page, modules, answers, each on a bounded number of threads
    running.py     the socket, the address that is printed, and when the server ends

`static/serve.js` is where the page begins. Starlette and uvicorn come with the extra `viewer`.
"""
