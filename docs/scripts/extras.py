"""Writes the table of the page on installing: each extra's packages and their size.

python docs/scripts/extras.py

Each extra is installed into an environment of its own, with the versions of constraints.txt. This
takes ten minutes and needs a network.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "tables" / "extras.md"
FOR = {
    "": "filters: fit, calibrate, apply, answer; metrics",
    "sklearn": "scikit-learn classifiers with other labels",
    "cli": "the command `unlabel`, tables, the report and the page to explore",
    "onnx": "filters inside ONNX models",
    "serve": "a filter in front of a model server",
    "spark": "filters over Spark tables",
    "torch": "PyTorch modules",
    "huggingface": "Hugging Face models",
    "research": "the paper's experiments",
}


def rows() -> Iterator[str]:
    """Install every extra, and give its line."""
    yield "| install | for | packages | size |"
    yield "|---|---|--:|--:|"
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--wheel-dir", wheels]
        subprocess.run([*pip, str(ROOT)], check=True)
        [wheel] = Path(wheels).iterdir()
        for extra, purpose in FOR.items():
            with tempfile.TemporaryDirectory() as folder:
                count, size = installed(Path(folder), f"{wheel}[{extra}]" if extra else str(wheel))
            name = f".[{extra}]" if extra else "."
            yield f"| `{name}` | {purpose} | {count} | {size / 1e6:,.0f} MB |"


def installed(folder: Path, requirement: str) -> tuple[int, int]:
    """Count the packages of a requirement, unlabel included, and their bytes."""
    venv.create(folder, with_pip=True)
    site = next(folder.glob("lib/python*/site-packages"))
    before = _bytes(site)
    command = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    options = ["-qq", "--no-compile", "--constraint", "constraints.txt"]
    subprocess.run([*command, "install", *options, requirement], cwd=ROOT, check=True)
    listed = subprocess.run(
        [*command, "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    print(f"{requirement}: {' '.join(listed)}", file=sys.stderr)
    return len(listed), _bytes(site) - before


def _bytes(folder: Path) -> int:
    files = (file for file in folder.rglob("*") if "__pycache__" not in file.parts)
    return sum(file.lstat().st_size for file in files if file.is_file())


def extras() -> set[str]:
    """Return the extras for users that pyproject.toml declares."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["optional-dependencies"]
    return {*declared} - {"check", "docs", "fuzz", "test"}


if __name__ == "__main__":
    assert extras() == {*FOR} - {""}, "FOR names other extras than pyproject.toml"
    TABLE.write_text("\n".join(rows()) + "\n", encoding="utf-8")
