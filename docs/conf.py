"""Sphinx configuration."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

project = "unlabel"
author = "The unlabel developers"
copyright = "2026, the unlabel developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
html_title = "unlabel"
exclude_patterns = ["_build", "tables"]  # pages include the tables
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
nitpicky = False

# Document integrations without installing their libraries.
autodoc_mock_imports = [
    "google",
    "httptools",
    "prometheus_client",
    "onnx",
    "pyspark",
    "torch",
    "transformers",
    "triton",
]
# PyTorch reads the types of an operator at once, so `Tensor | None` must work for a mocked class.
import_module("sphinx.ext.autodoc.mock")._MockObject.__or__ = lambda self, other: self


def add_page_to_explore(app: Any, error: Exception | None) -> None:
    """Put the page that the docs on `unlabel explore` link to beside them."""
    if error is None and app.builder.format == "html":
        import_module("explore").page_of_demo(Path(app.outdir, "guides", "explore-cifar10.html"))


def setup(app: Any) -> None:
    """Connect what the build does beyond the pages."""
    app.connect("build-finished", add_page_to_explore)
