"""Use an installed wheel in an otherwise empty environment; run by `make test-wheel`.

`smoke.py bare` is for the wheel alone, `smoke.py cli` for the wheel with the extra of that name.
"""

import shutil
import subprocess
import sys
from importlib.metadata import distributions, version
from pathlib import Path
from tempfile import TemporaryDirectory

import unlabel
from unlabel import AnswerRule, OutputFilter, UnlabelError
from unlabel._method import compiled

PROGRAM = Path(sys.executable).with_name("unlabel")
NAMES, LABELS = ["cat", "dog", "fox"], ["cat", "dog", "fox", "dog"] * 100
ROWS = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.1, 0.6, 0.3]] * 100


def run(*arguments: object) -> str:
    """Run a command, and return what it prints."""
    command = [PROGRAM, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def use_bare(folder: Path) -> None:
    """Use what NumPy and safetensors are enough for, and print what they weigh."""
    fitted = OutputFilter.fit(ROWS, LABELS, classes=NAMES, remove=["cat"])
    fitted.save(folder / "f.safetensors")
    loaded = OutputFilter.load(folder / "f.safetensors")
    assert loaded == fitted
    assert loaded.classes_out == ("dog", "fox")
    assert (loaded.apply(ROWS) == fitted.run(ROWS).confidences).all()
    masked = OutputFilter.from_plan({"cat": None}, classes=NAMES)
    answers = masked.answer(ROWS[:2], AnswerRule(max_removed_mass=0.5))
    assert answers.tolist() == [None, "dog"]
    message = ""
    try:
        loaded.apply([[0.5, 0.1, 0.1]])
    except UnlabelError as error:
        message = str(error)
    assert message.startswith("Row 0: it is not a probability vector"), message
    # A build that fails is passed over, so nothing else would say so.
    assert compiled.is_available() or shutil.which("cc") is None
    assert run("--version").startswith(f"unlabel {version('unlabel')}, ")
    import unlabel.metrics

    assert "sklearn" not in sys.modules
    assert unlabel.metrics.mean_accuracy(ROWS, LABELS, NAMES) == 1
    found = {each.name: each for each in distributions() if each.name not in ("pip", "setuptools")}
    files = [each.locate_file(file) for each in found.values() for file in each.files or ()]
    size = sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file())
    print(f"Bare: {len(found)} packages, {size / 1e6:.0f} MB: {', '.join(sorted(found))}.")


def use_cli(folder: Path) -> None:
    """Fit a filter on a table and apply it, as commands."""
    from unlabel.evaluation import load_cifar10

    lines = [",".join(map(str, [*row, at])) for row, at in zip(ROWS, LABELS, strict=True)]
    (folder / "rows.csv").write_text("\n".join([",".join([*NAMES, "label"]), *lines]) + "\n")
    filter = folder / "f.safetensors"
    run("fit", folder / "rows.csv", "--remove", "cat", "-o", filter, "-q")
    out = run("apply", folder / "rows.csv", filter, "-o", "-")
    assert out.splitlines()[0] == "dog,fox,label", out
    assert len(out.splitlines()) == len(ROWS) + 1
    assert load_cifar10().base.shape == (10000, 10)


if __name__ == "__main__":
    assert Path(sys.prefix) in Path(unlabel.__file__).parents, unlabel.__file__
    with TemporaryDirectory() as name:
        {"bare": use_bare, "cli": use_cli}[sys.argv[1]](Path(name))
    print("The wheel works.")
