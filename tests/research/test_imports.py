"""The experiments use the library as anyone would: by its public names alone."""

import ast
import importlib
from pathlib import Path

import pytest

import research

ROOT = Path(research.__file__).parent
# The sample outputs are in `evaluation`.
PUBLIC = {"unlabel", "unlabel.metrics", "unlabel.evaluation", "unlabel.tables"}


def imported(path):
    """Yield each module of the library that a file imports, and the name from it, if any."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unlabel"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, None) for a in node.names if a.name.startswith("unlabel"))


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_only_public_names_are_imported(path):
    for module, name in imported(path):
        assert module in PUBLIC, f"{module} is not public"
        known = [*importlib.import_module(module).__all__, None]
        assert name in known or f"{module}.{name}" in PUBLIC, f"{module}.{name} is not public"
