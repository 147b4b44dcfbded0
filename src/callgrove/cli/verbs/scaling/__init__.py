"""The verbs about scaling.

model.py   `model`: costs as functions of the parameters; `predict`: costs at a scale that was not measured
advise.py  `advise`: which points to measure next
"""
