"""The page on the gate: its commands run, in its CI job too, and give the stated results."""

import os
import re
import shlex
import subprocess
import sys

import pytest

import tables as docs_tables
from commands import unlabel
from unlabel.evaluation.conditions import NAMES, parse_condition

PAGE = (docs_tables.DOCS / "guides" / "gate.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)


def blocks(kind):
    return [text for each, text in BLOCKS if each == kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of the first block, and a command `unlabel` for shells."""
    folder = tmp_path_factory.mktemp("gate")
    [code] = blocks("python")
    program = folder / "bin" / "unlabel"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unlabel "$@"\n')
    program.chmod(0o755)
    home = os.getcwd()
    os.chdir(folder)
    try:
        exec(compile(code, "gate.md", "exec"), {})
    finally:
        os.chdir(home)
    return folder


def test_every_block_is_run():
    assert [kind for kind, _ in BLOCKS] == ["python", "", "", "", "yaml", "sh"]
    assert PAGE.count("\n```") == 2 * len(BLOCKS)


@pytest.mark.parametrize("block", range(3))
def test_the_commands_give_what_is_stated(folder, monkeypatch, block):
    monkeypatch.chdir(folder)
    command, *stated = blocks("")[block].replace("\\\n", "").splitlines()
    program, *arguments = shlex.split(command)
    assert program == "unlabel"
    code, out, error = unlabel(*arguments)
    assert code == (3 if "# exit 3" in stated else 0)
    said = " ".join(f"{out} {error}".split())
    assert stated
    for line in stated:
        assert line == "# exit 3" or line.removeprefix("# ") in said


def run_in_shell(folder, script):
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(folder / "step-summary.md"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    # As GitHub runs its steps.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_the_job_runs(folder):
    yaml = pytest.importorskip("yaml")
    [text] = blocks("yaml")
    job = yaml.safe_load(text)["jobs"]["impact"]
    steps = {step["name"]: step for step in job["steps"] if "name" in step}
    run = run_in_shell(folder, steps["Impact of the plan"]["run"])
    assert (run.returncode, run.stderr) == (0, "")
    run_in_shell(folder, steps["Show it"]["run"])
    shown = (folder / "step-summary.md").read_text(encoding="utf-8")
    assert shown == (folder / "impact.md").read_text(encoding="utf-8")
    assert "Animals, version 2" in shown


@pytest.mark.parametrize(("share", "code"), [("50%", 0), ("1%", 3), ("50", 3), ("500%", 2)])
def test_the_shell_step_tells_a_failed_condition_from_a_mistake(folder, share, code):
    [script] = blocks("sh")
    assert "changed > 50%" in script
    run = run_in_shell(folder, script.replace("changed > 50%", f"changed > {share}"))
    assert run.returncode == code
    assert ("does too much" in run.stdout) == (code == 3)
    assert ("Failed: " in run.stderr) == (code == 3)
    assert run.stderr.startswith("Error: ") == (code == 2)


def test_every_name_is_on_the_page():
    listed = {*re.findall(r"`([a-z_.]+)`", PAGE)}
    retained = {name.replace(".removed", ".retained") for name in NAMES}
    assert {*NAMES} - listed <= {name for name in NAMES if name.endswith(".removed")}
    assert retained <= listed


def test_every_condition_on_the_page_can_be_read():
    found = re.findall(r"[`\"]((?:\w+\.)*\w+ (?:<|>)=? [\d.]+%?)[`\"]", PAGE)
    assert len(found) > 8
    for condition in found:
        parse_condition(condition)
