"""The direction of imports: no module imports one that builds on it."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import unlabel

ROOT = Path(unlabel.__file__).parent
# Each layer may import itself and the layers before it.
LAYERS = [
    ("_typing", "_printing", "errors"),
    ("labels",),
    ("_method", "_skipped"),
    ("validation",),
    ("_files", "_plans", "plan"),
    ("allow",),
    ("answers", "fitting", "_joining"),
    ("filter",),
    ("metrics",),
    ("_tables", "evaluation"),
    ("tables", "sklearn", "torch", "huggingface", "onnx", "spark", "serve", "report", "explore"),
    ("cli", "__main__"),
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports(path):
    """Yield what a file imports of the package, at the top or inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    ]
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("unlabel"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("unlabel."))


def part(module):
    return module.split(".")[1]


def name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def test_every_part_has_its_place():
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert parts == set(LEVEL)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for module in imports(path):
        if part(module) in LEVEL and part(module) != own:
            message = f"{path.relative_to(ROOT)} imports {module}, which is built on it"
            assert LEVEL[part(module)] <= LEVEL[own], message


def test_no_module_imports_itself_by_way_of_others():
    names = {name(path) for path in MODULES}
    graph = {
        name(path): {each if each in names else each.rpartition(".")[0] for each in imports(path)}
        for path in MODULES
    }
    TopologicalSorter(graph).prepare()  # an error names the cycle
