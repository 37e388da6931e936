"""The paper's experiments: base models, retrained models, OSR beside other methods, tables.

`python -m research run` trains the models and runs the methods, one cell at a time;
`python -m research tables` computes every value from the stored results.
"""

from research import builtin as _builtin  # noqa: F401 (which registers what comes with them)
from research.registry import register_dataset, register_method, register_model

__all__ = ["register_dataset", "register_method", "register_model"]
