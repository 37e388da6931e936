"""The paper's experiments: base models, retrained models, OSR beside other methods, tables.

`unlabel bench run` (extra `bench`) trains and runs, one cell at a time; `unlabel bench tables`
(extra `cli`) computes every figure from what the cells hold.
"""
