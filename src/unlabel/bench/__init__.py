"""The paper's experiments: base models, retrained models, OSR beside other methods, tables.

`unlabel bench run` (extra `bench`) trains the models and runs the methods, one cell at a time;
`unlabel bench tables` (extra `cli`) computes every value from the stored results.
"""
