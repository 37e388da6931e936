"""The recipes run, from the first to the last, and give the results that they state."""

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import tables as docs_tables
from commands import unlabel

PAGE = Path(docs_tables.__file__).parent / "recipes.md"
NOT_RUN = "# Not run here: "
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def blocks():
    """Give the kind, the first line's number and the text of each block."""
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("\n```") == 2 * len(BLOCK.findall(page))
    return [
        (match[1], page.count("\n", 0, match.start(2)), match[2]) for match in BLOCK.finditer(page)
    ]


def run_python(code, line, namespace):
    """Run a block, and compare what it prints with the comments behind it."""
    stated = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert len(stated) == code.count("print(")
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * line + code, PAGE.name, "exec"), namespace)
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


def test_the_recipes_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for kind, line, text in blocks():
        assert kind in ("python", ""), f"line {line}: a block of {kind!r} is neither run nor marked"
        if not kind:
            run_commands(text)
        elif not text.startswith(NOT_RUN):
            run_python(text, line, namespace)


def test_only_what_is_not_installed_is_not_run():
    needs = [text.splitlines()[0] for _, _, text in blocks() if text.startswith(NOT_RUN)]
    assert needs == [f"{NOT_RUN}it needs MAPIE 1."]
