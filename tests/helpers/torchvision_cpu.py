"""Makes torchvision importable with a PyTorch that its compiled operators do not match.

Import this module before transformers, which imports torchvision if it is installed.
"""

from importlib.util import find_spec

HAS_TORCHVISION = find_spec("torchvision") is not None

if HAS_TORCHVISION:
    import research.torchvision_cpu  # noqa: F401
