"""The code of pages runs, from the first block to the last, and gives the results it states."""

import io
import re
import shlex
from contextlib import redirect_stdout

import pytest

import tables as docs_tables
from commands import unlabel

DOCS = docs_tables.DOCS
PAGES = (
    "guides/recipes.md",
    "guides/layouts.md",
    "guides/explore.md",
    "guides/conformal.md",
    "guides/tokens.md",
    "integrations/serve.md",
)
NOT_RUN = "# Not run here: "
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def blocks(page):
    """Give the kind, the first line's number and the text of each block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text.count("\n```") == 2 * len(BLOCK.findall(text))
    return [
        (match[1], text.count("\n", 0, match.start(2)), match[2])
        for match in BLOCK.finditer(text)
        if not match[1].startswith("{")  # what Sphinx includes
    ]


def run_python(code, page, line, namespace):
    """Run a block, and compare what it prints with the comments behind it."""
    stated = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(stated) == code.count("print(")
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * line + code, page, "exec"), namespace)
    assert printed.getvalue().splitlines() == stated


def run_commands(lines):
    """Run the commands of a block, and look in their outputs for the comments below them."""
    said = ""
    for line in lines.replace("\\\n", "").splitlines():
        if line.startswith("# "):
            assert line.removeprefix("# ") in said
            continue
        program, *arguments = shlex.split(line)
        assert program == "unlabel", f"{line!r} is neither a command nor its output"
        code, said, errors = unlabel(*arguments)
        assert code == 0, f"{line}: {errors}"


@pytest.mark.parametrize("page", PAGES)
def test_pages_run(page, tmp_path, monkeypatch):
    if page == "guides/tokens.md":
        pytest.importorskip("torchvision_cpu")  # before transformers, which imports torchvision
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for kind, line, text in blocks(page):
        assert kind in ("python", ""), f"line {line}: a block of {kind!r} is neither run nor marked"
        if text.startswith(NOT_RUN):
            continue
        if kind:
            run_python(text, page, line, namespace)
        else:
            run_commands(text)


def test_only_what_cannot_run_here_is_not_run():
    texts = [text for page in PAGES for _, _, text in blocks(page)]
    needs = [text.splitlines()[0] for text in texts if text.startswith(NOT_RUN)]
    assert needs == [
        f"{NOT_RUN}it serves until it is stopped.",
        f"{NOT_RUN}it needs MLServer.",
        f"{NOT_RUN}it needs KServe.",
    ]
