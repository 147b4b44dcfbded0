"""Answers for an assistant: the questions of the verbs as tools of the Model Context Protocol, read-only, under folders
that a user named.

The modules, in the order to read them:

    folders.py     which files may be read
    arguments.py   what a tool may be asked: types, bounds, and the schema that clients are shown
    inputs.py      inputs that are open, as long as their files stay the same
    commands.py    the command and the SQL query that reproduce an answer
    answers.py     documents that fit a budget of tokens, and say what was left out
    tools.py       the tools, each a question of the analysis
    serving.py     the protocol, over stdin and stdout (extra `mcp`)

No module here computes anything: a tool calls the method that is named like its verb.
"""
