"""Sphinx configuration."""

from importlib import import_module

project = "unlabel"
author = "The unlabel developers"
copyright = "2026, the unlabel developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = "unlabel"
exclude_patterns = ["_build", "limit-table.md", "paper-table.md", "reproduced", "speed-table.md"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
nitpicky = False

# Document integrations without installing their libraries.
autodoc_mock_imports = ["google", "onnx", "pyspark", "torch", "transformers", "triton"]
# PyTorch reads the types of an operator at once, so `Tensor | None` must work for a mocked class.
import_module("sphinx.ext.autodoc.mock")._MockObject.__or__ = lambda self, other: self
