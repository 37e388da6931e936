"""The paper's experiments: base models, retrained models, OSR beside other methods, tables.

`python -m research run` trains the models and runs the methods, one cell at a time;
`python -m research tables` computes every value from the stored results.
"""
