"""The page on the gate beyond what every page is tested for: its CI job, codes and conditions."""

import re
from importlib.metadata import version

import pytest

from commands import run_in_shell
from page_blocks import ROOT, blocks
from unlabel.evaluation.conditions import NAMES, parse_condition

PAGE = "docs/guides/gate.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def block(kind):
    [text] = [text for each, _, text in blocks(PAGE) if each == kind]
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of the first block."""
    folder = tmp_path_factory.mktemp("gate")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(block("python"), PAGE, "exec"), {})
    return folder


def test_the_job_runs(folder):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(block("yaml"))["jobs"]["impact"]
    steps = {step["name"]: step for step in job["steps"] if "name" in step}
    run = run_in_shell(steps["Impact of the plan"]["run"], folder)
    assert (run.returncode, run.stderr) == (0, "")
    summary = folder / "step-summary.md"
    run_in_shell(steps["Show it"]["run"], folder, GITHUB_STEP_SUMMARY=str(summary))
    shown = summary.read_text(encoding="utf-8")
    assert shown == (folder / "impact.md").read_text(encoding="utf-8")
    assert "Animals, version 2" in shown


def test_the_job_installs_a_wheel_of_this_version():
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load(block("yaml"))["jobs"]["impact"]["steps"]
    [install] = [step["run"] for step in steps if "pip install" in step.get("run", "")]
    assert f"/unlabel-{version('unlabel')}-" in install


@pytest.mark.parametrize(("share", "code"), [("1%", 1), ("50", 1), ("500%", 2)])
def test_the_shell_step_tells_a_failed_condition_from_a_mistake(folder, share, code):
    script = block("sh")
    assert "changed > 50%" in script
    run = run_in_shell(script.replace("changed > 50%", f"changed > {share}"), folder)
    assert run.returncode == code
    assert ("does too much" in run.stdout) == (code == 1)
    assert ("Failed: " in run.stderr) == (code == 1)
    assert run.stderr.startswith("Error: ") == (code == 2)


def test_every_name_is_on_the_page():
    listed = {*re.findall(r"`([a-z_.]+)`", TEXT)}
    retained = {name.replace(".removed", ".retained") for name in NAMES}
    assert {*NAMES} - listed <= {name for name in NAMES if name.endswith(".removed")}
    assert retained <= listed


def test_every_condition_on_the_page_can_be_read():
    found = re.findall(r"[`\"]((?:\w+\.)*\w+ (?:<|>)=? [\d.]+%?)[`\"]", TEXT)
    assert len(found) > 8
    for condition in found:
        parse_condition(condition)
