"""Makes torchvision importable beside a PyTorch that its compiled operators do not fit.

To be imported before transformers, which imports torchvision where it is there.
"""

from importlib.util import find_spec

HAS_TORCHVISION = find_spec("torchvision") is not None

if HAS_TORCHVISION:
    import unlabel.bench.torchvision_cpu  # noqa: F401
