r"""The code of the README and of every page runs from top to bottom, with the stated results.

The blocks of a page run one after another in a folder that is empty at first:

- `python` blocks share their names. Each `print(...)` has the line that it prints in a comment
  behind it, in which `...` stands for any text.
- Blocks without a language are commands. A `\` at its end continues a line. Comments below a
  command are parts of its output, whatever the blanks, or its exit code (`# exit 3`). `make demo`
  runs as in the Makefile, and `python -m research...` in this process; other lines that begin like
  those of `INSTALLING` do not run.
- `toml` and `yaml` blocks begin with `# NAME`, and are saved as the file of that name. A file that
  is shown by `{literalinclude}` is copied.
- `sh` blocks are scripts, run as a step of a CI job.
- `text` blocks are neither code nor commands.
- A block that cannot run here begins with `# Not run here: REASON.` and is listed in `NOT_RUN`.

Readers paste blocks into an interactive session, which ends an indented block at its first empty
line and only there. No line of code or of commands is longer than `WIDEST` characters.

Pages that need a library which is not installed are skipped.
"""

import io
import os
import re
import shlex
import shutil
from codeop import compile_command
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest

from commands import research, run_in_shell, unlabel
from page_blocks import ROOT, blocks, pages

INSTALLING = ("cd ", "git clone ", "make ", "pip ", "python -m pip ", "python -m venv ")
WIDEST = 88
NOT_RUN_HERE = "# Not run here: "
NOT_RUN = {
    "docs/integrations/serve.md": [
        "it serves until it is stopped.",
        "it needs MLServer.",
        "it needs KServe.",
    ],
    "docs/research/frozen-features.md": [
        "it needs the images of the faces, and takes a quarter of an hour."
    ],
    "docs/research/reproduction.md": [
        "it reads the outputs of a checkout, and takes less than a minute."
    ],
    "docs/research/unsir.md": ["it needs a GPU and the image sets."],
}
OPTIONAL = (
    *("mapie", "matplotlib", "onnx", "onnxruntime", "pandas", "polars", "pyarrow", "pyspark"),
    *("skl2onnx", "torch", "transformers"),
)


def run_python(code, page, line, namespace):
    """Run a block, and compare its output with the comments behind it."""
    stated = re.findall(r"^ *print\(.*\) +# (.*)$", code, re.MULTILINE)
    assert len(stated) == code.count("print("), "a print has no comment with its output"
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * line + code, page, "exec"), namespace)
    lines = printed.getvalue().splitlines()
    assert len(lines) == len(stated), lines
    for shown, pattern in zip(lines, stated, strict=True):
        assert re.fullmatch(re.escape(pattern).replace(r"\.\.\.", ".*"), shown), (shown, pattern)


def run_commands(text):
    """Run the commands of a block, and look in their outputs for the comments below them."""
    joined = text.replace("\\\n", "")
    for command, *stated in map(str.splitlines, re.split(r"\n(?!#)", joined.strip())):
        if command == "make demo":
            command = "unlabel demo --out demo"
            assert f"$(BIN)/{command}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
        if command.startswith(INSTALLING):
            continue
        program, *arguments = shlex.split(command, comments=True)
        if command.startswith("python -m research"):
            _, module, *arguments = arguments
            code, out, errors = research(*arguments, module=module)
        else:
            assert program == "unlabel", f"{command!r} is neither a command nor its output"
            code, out, errors = unlabel(*arguments)
        assert code == 0 or f"# exit {code}" in stated, f"{command}: {out} {errors}"
        said = " ".join(f"{out} {errors} exit {code}".split())
        for line in stated:
            assert " ".join(line.removeprefix("# ").split()) in said, said


def run_block(kind, line, text, page, namespace):
    """Run a block, or save the file that it shows."""
    if kind == "python":
        run_python(text, page, line, namespace)
    elif kind == "":
        run_commands(text)
    elif kind == "sh":
        run = run_in_shell(text, Path.cwd())
        assert run.returncode == 0, run.stderr
    elif kind in ("toml", "yaml"):
        name = Path(text.splitlines()[0].removeprefix("# "))
        assert name.suffix in (".toml", ".yaml", ".yml"), "the first line does not name the file"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(text, encoding="utf-8")
    elif kind.startswith("{literalinclude} "):
        shutil.copy((ROOT / page).parent / kind.split()[1], ".")
    else:
        assert kind == "text" or kind.startswith("{"), f"a block of {kind!r}"


@pytest.fixture
def namespace(request, page, tmp_path, monkeypatch):
    """Prepare a folder for a page, and the libraries that it imports."""
    text = "".join(text for _, _, text in blocks(page) if not text.startswith(NOT_RUN_HERE))
    imported = {*re.findall(r"^(?:import|from) ([\w.]+)", text, re.MULTILINE)}
    for name in OPTIONAL:
        if any(each.split(".")[0] == name for each in imported) and find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    if "torch.compile(" in text and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("PyTorch's compiler needs a C++ compiler")
    monkeypatch.chdir(tmp_path)
    if "transformers" in imported:
        os.environ["HF_HUB_OFFLINE"] = "1"  # before it is imported: nothing may be downloaded
        import torchvision_cpu  # noqa: F401
    if "pyspark.sql" in imported:
        spark = request.getfixturevalue("spark")
        # A JVM stays in the folder that it was started in.
        files = spark._jvm.org.apache.hadoop.fs
        system = files.FileSystem.get(spark._jsc.hadoopConfiguration())
        system.setWorkingDirectory(files.Path(str(tmp_path)))
    return {"__name__": "page"}


@pytest.mark.parametrize("page", pages())
@pytest.mark.filterwarnings("ignore:::torch", "ignore:.*LeafSpec:FutureWarning")  # its own
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_the_page_runs(page, namespace):
    for kind, line, text in blocks(page):
        if not text.startswith(NOT_RUN_HERE):
            run_block(kind, line, text, page, namespace)


def test_only_the_listed_blocks_are_not_run():
    found = {
        page: [
            text.splitlines()[0].removeprefix(NOT_RUN_HERE)
            for _, _, text in blocks(page)
            if text.startswith(NOT_RUN_HERE)
        ]
        for page in pages()
    }
    assert {page: reasons for page, reasons in found.items() if reasons} == NOT_RUN


@pytest.mark.parametrize("page", pages())
def test_python_can_be_pasted_into_an_interactive_session(page):
    for _, first, text in (block for block in blocks(page) if block[0] == "python"):
        entered = []
        for number, line in enumerate([*text.splitlines(), ""], first + 1):
            entered.append(line)
            try:
                statement = compile_command("\n".join(entered))
            except SyntaxError as error:
                pytest.fail(f"line {number}, {line!r}: {error.msg}")
            if statement is not None:
                entered = []
        assert not entered, f"line {number}: the last statement is not complete"


@pytest.mark.parametrize("page", pages())
def test_lines_of_code_are_short(page):
    code = [text for kind, _, text in blocks(page) if kind in ("python", "sh", "")]
    assert [line for text in code for line in text.splitlines() if len(line) > WIDEST] == []
