"""The verbs that go on until they are ended.

watch.py  `watch`: a folder that a job is still writing
mcp.py    `mcp`: answers for an assistant
"""
