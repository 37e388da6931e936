import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from commands import unlabel
from unlabel import LabelPlan, OutputFilter
from unlabel._method import compiled
from unlabel.cli.changes import count_changes

NAMES = ["cat", "dog", "fox", "owl"]
few_rows = pytest.mark.filterwarnings("ignore:Fewer than 100 reference rows")


@pytest.fixture
def reference(tmp_path):
    rows = np.random.default_rng(2).dirichlet(np.ones(4), size=400)
    np.savez(tmp_path / "r.npz", p=rows, label=np.array(NAMES)[rows.argmax(axis=1)], classes=NAMES)
    return tmp_path / "r.npz"


def test_help_names_every_command():
    code, out, _ = unlabel("--help")
    assert code == 0
    for command in ("fit", "apply", "inspect", "demo"):
        assert command in out


def test_the_version_is_that_of_the_package(monkeypatch):
    for is_compiled, loops in ((True, "with"), (False, "without")):
        monkeypatch.setattr(compiled, "is_available", lambda found=is_compiled: found)
        line = f"unlabel {version('unlabel')}, {loops} compiled loops\n"
        assert unlabel("--version") == (0, line, "")


def test_the_version_needs_no_extra():
    code = "import sys; from unlabel.__main__ import main; sys.argv[1:] = ['--version']; main(); "
    code += "assert not {'typer', 'pyarrow', 'sklearn', 'scipy'} & {*sys.modules}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("unlabel ")


def test_an_error_of_the_library_itself_ends_with_2(monkeypatch):
    monkeypatch.setattr(LabelPlan, "load", lambda path: 1 / 0)
    code, out, error = unlabel("plan", "check", "plan.toml")
    assert (code, out) == (2, "")
    assert "ZeroDivisionError" in error


@pytest.mark.parametrize("command", ["", "fit", "apply", "plan", "plan check", "onnx", "serve"])
def test_help_has_a_short_option(command):
    assert unlabel(*command.split(), "-h")[:2] == unlabel(*command.split(), "--help")[:2]


def test_inspect_tells_what_goes_where(reference, tmp_path):
    out = tmp_path / "f.safetensors"
    unlabel("fit", reference, "--remove", "owl", "--remove", "cat", "--out", out)
    code, text, _ = unlabel("inspect", out)
    assert code == 0
    assert "2: 'owl', 'cat'" in text
    assert "2: 'dog', 'fox'" in text
    assert str(OutputFilter.load(out).counts[1]) in text


@few_rows
def test_inspect_says_that_it_shows_the_output_of_a_mean_and_not_a_mean_of_outputs(tmp_path):
    rows = [[0.75, 0.25, 0.0], [0.25, 0.375, 0.375]]
    fitted = OutputFilter.fit(rows, [0, 0], remove=[0])
    fitted.save(tmp_path / "f")
    _, text, _ = unlabel("inspect", tmp_path / "f")
    of_the_mean = fitted.apply([[0.5, 0.3125, 0.1875]])[0, 0]
    mean_of_outputs = fitted.apply(rows)[:, 0].mean()
    assert f"{of_the_mean:.1%}" in text
    assert f"{mean_of_outputs:.1%}" not in text
    assert "Where the mean vector of each removed label goes" in text
    assert "The mean of its filtered rows can differ" in text


PLAN = {"owl": None, "cat": "pet", "dog": "pet", "fox": {"red": 0.25, "grey": 0.75}}


def save_changed(path, **texts):
    rows = np.random.default_rng(2).dirichlet(np.ones(4), size=40)
    fitted = OutputFilter.fit(
        rows, np.full(40, "owl"), classes=NAMES, plan=LabelPlan(PLAN, **texts)
    )
    fitted.save(path)
    return fitted


@few_rows
def test_inspect_shows_the_plan(tmp_path):
    path = tmp_path / "f.safetensors"
    save_changed(path, title="Version 2", note="owls are gone")
    code, text, error = unlabel("inspect", path)
    assert (code, error) == (0, "")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "title Version 2",
        "note owls are gone",
        "changes 1 of 4 labels removed, 2 merged into 1, 1 split",
        "removed 1: 'owl'",
        "result 3: 'pet', 'red', 'grey'",
        "protocol 1",
        "'cat' 'pet'",
        "'dog' 'pet'",
        "'fox' 'red' 0.25, 'grey' 0.75",
    ):
        assert line in lines
    assert json.loads(unlabel("inspect", path, "--json")[1])["plan"]["digest"] in text.replace(
        "\n", ""
    ).replace(" ", "")
    assert "'owl' (removed)" not in lines
    lines = [" ".join(line.split()) for line in unlabel("inspect", path, "--all")[1].splitlines()]
    assert "'owl' (removed)" in lines


@few_rows
def test_inspect_shows_the_lines_of_a_note_and_none_of_them_as_a_fact(tmp_path):
    save_changed(tmp_path / "f", title="a\nmethod", note="owls are gone\nmethod  \x1b[2J none")
    lines = unlabel("inspect", tmp_path / "f")[1].splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("note"))
    assert lines[at].split() == ["note", "owls", "are", "gone"]
    assert lines[at + 1].strip() == r"method  \x1b[2J none"
    assert [line for line in lines if line.startswith("method")] == [
        line for line in lines if line.split() == ["method", "osr"]
    ]


def test_inspect_shows_every_label_if_asked_to(tmp_path):
    plan = dict.fromkeys(range(30), "few")
    OutputFilter.from_plan(plan, classes=range(100)).save(tmp_path / "f")
    text = unlabel("inspect", tmp_path / "f")[1]
    assert "and 10 more" in text
    assert "51 more" in text
    lines = unlabel("inspect", tmp_path / "f", "--all")[1].splitlines()
    assert "more" not in "".join(lines)
    pairs = [line.split() for line in lines if len(line.split()) == 2]
    for label in range(100):
        assert [str(label), "'few'" if label < 30 else "(stays)"] in pairs


@few_rows
def test_inspect_prints_everything_as_json(tmp_path):
    path = tmp_path / "f.safetensors"
    save_changed(path, title="Version 2 \x7f\x1b\u202e", note="owls are gone")
    assert r"Version 2 \x7f\x1b\u202e" in unlabel("inspect", path)[1]
    code, text, error = unlabel("inspect", path, "--json")
    assert (code, error) == (0, "")
    assert re.fullmatch(r"[\n -~]*", text)
    found = json.loads(text)
    assert found == {
        "protocol": 1,
        "method": "osr",
        "kind": "probabilities",
        "temperature": 1.0,
        "classes_in": NAMES,
        "classes_out": ["pet", "red", "grey"],
        "removed": [{"label": "owl", "reference_rows": 40}],
        "plan": {
            "title": "Version 2 \x7f\x1b\u202e",
            "note": "owls are gone",
            "unlisted": "keep",
            "digest": found["plan"]["digest"],
            "changes": [
                {"from": "owl", "to": []},
                {"from": "cat", "to": [{"label": "pet", "weight": 1.0}]},
                {"from": "dog", "to": [{"label": "pet", "weight": 1.0}]},
                {
                    "from": "fox",
                    "to": [{"label": "red", "weight": 0.25}, {"label": "grey", "weight": 0.75}],
                },
            ],
        },
    }


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({}, "0 of 4 labels removed"),
        ({"cat": None, "dog": None}, "2 of 4 labels removed"),
        ({"cat": "dog"}, "2 of 4 labels merged into 1"),
        ({"cat": "x", "dog": "x", "fox": "y", "owl": "y"}, "4 of 4 labels merged into 2"),
        ({"cat": "dog", "dog": "cat"}, "2 of 4 labels renamed"),
        (
            {"cat": None, "dog": "fox", "owl": "bird"},
            "1 of 4 labels removed, 2 merged into 1, 1 renamed",
        ),
        (
            {"cat": {"dog": 0.5, "new": 0.5}, "owl": "bird"},
            "1 of 4 labels merged into 1, 1 renamed, 1 split",
        ),
    ],
)
def test_changes_are_counted(plan, says):
    assert count_changes(OutputFilter.from_plan(plan, classes=NAMES)) == says


HOSTILE = "cat\x1b[2J\x1b[H\n\u202ekept  0\x9b"
SHOWN = r"cat\x1b[2J\x1b[H\n\u202ekept  0\x9b"


def test_a_label_cannot_forge_what_is_printed(tmp_path):
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(3), size=400)
    classes = np.array([HOSTILE, "dog", "fox\u2028"])
    table = tmp_path / "t.npz"
    np.savez(table, p=rows, label=classes[rows.argmax(axis=1)], classes=classes)
    filters = tmp_path / "f.safetensors", tmp_path / "g.safetensors"
    for path, label in zip(filters, classes[:2], strict=True):
        truth = classes[rows.argmax(axis=1)]
        OutputFilter.fit(rows, truth, classes=classes, remove=[label]).save(path)
    outcomes = [
        *(unlabel("inspect", path) for path in filters),
        unlabel("evaluate", table, "--remove", HOSTILE),
        unlabel("fit", table, "--remove", "cat", "--out", tmp_path / "h"),
        unlabel("fit", table, "--remove", "dog", "--out", tmp_path / HOSTILE / "h"),
        unlabel("fit", table, "--remove", "dog", "--out", tmp_path / HOSTILE),
    ]
    assert [code for code, *_ in outcomes] == [0, 0, 0, 2, 2, 0]
    for _, out, error in outcomes:
        assert SHOWN in re.sub(r"\n\s*", "", out) + error
        assert not re.search("[^\n -\ud7ff]|[\x7f-\x9f\u2028\u2029\u202e]", out + error)
        assert error.count("\n") <= 1


def test_letters_that_the_terminal_lacks_are_escaped(reference, tmp_path):
    unlabel("fit", reference, "--remove", "cat", "--out", tmp_path / "f.safetensors")
    run = subprocess.run(
        [sys.executable, "-m", "unlabel", "inspect", tmp_path / "f.safetensors"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"'cat'" in run.stdout


def test_inspect_keeps_a_large_filter_short(tmp_path):
    plan = dict.fromkeys(range(300))
    OutputFilter.from_plan(plan, classes=range(1000)).save(tmp_path / "f.safetensors")
    code, text, _ = unlabel("inspect", tmp_path / "f.safetensors")
    assert code == 0
    assert "280 more" in text
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize("command", ["fit", "apply"])
def test_an_output_is_overwritten_only_by_force(reference, tmp_path, command):
    filter = tmp_path / "f.safetensors"
    unlabel("fit", reference, "--remove", "cat", "--out", filter)
    arguments = {
        "fit": ["fit", reference, "--remove", "cat"],
        "apply": ["apply", reference, filter],
    }[command]
    out = tmp_path / ("out.safetensors" if command == "fit" else "out.npz")
    out.write_text("precious")
    code, _, error = unlabel(*arguments, "--out", out)
    assert code == 2
    assert "exists already" in error
    assert out.read_text() == "precious"
    assert unlabel(*arguments, "--out", out, "--force")[0] == 0
    assert out.read_bytes() != b"precious"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--remove", "cta"], "no label 'cta'.*nearest is 'cat'"),
        (["--remove", "cat", "--remove", "cat"], "'cat' appears twice"),
        ([], "Give one of a plan, labels to remove and labels to keep"),
        (["--remove", "cat", "--keep", "dog"], "Give one of"),
        ([x for name in NAMES for x in ("--remove", name)], "All 4 labels"),
        (["--remove", "cat", "--kind", "logits"], r"are probabilities.*\(--kind\)"),
        (["--remove", "cat", "--classes", "absent.txt"], "absent.txt"),
    ],
)
def test_a_mistake_gets_one_sentence(reference, tmp_path, arguments, words):
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", reference, *arguments, "--out", out)
    assert code == 2
    assert error.count("\n") == 1
    assert re.search(words, error)
    assert not out.exists()


def fit_rows(tmp_path, rows, labels, *options):
    np.savez(tmp_path / "r.npz", p=rows, label=labels)
    code, out, said = unlabel("fit", tmp_path / "r.npz", *options, "--out", tmp_path / "f")
    assert out == ""
    return code, said


def test_remarks_name_labels_without_reference_rows_and_with_few(tmp_path):
    code, said = fit_rows(tmp_path, np.eye(3)[[0, 0, 1]], [0, 0, 1], "--remove", 2, "--remove", 0)
    assert code == 0
    assert "No reference rows of 2: masked" in said
    assert "Fewer than 100 reference rows of 0" in said
    assert OutputFilter.load(tmp_path / "f").counts == (0, 2)


def test_calibrate_needs_enough_rows(tmp_path):
    rows, labels = np.full((6, 3), 1 / 3), [0, 1, 2, 0, 1, 2]
    code, said = fit_rows(tmp_path, rows, labels, "--remove", 2, "--calibrate")
    assert code == 2
    assert "at least 50" in said
    assert "found 4" in said
    assert said.endswith("(--calibrate).\n")


def overconfident(temperature):
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=600)
    logits = rng.normal(size=(600, 3)) + 2 * np.eye(3)[truth]
    rows = np.exp(logits * temperature)
    return rows / rows.sum(axis=1, keepdims=True), truth


def test_calibrate_prints_the_temperature_and_what_it_does(tmp_path):
    code, said = fit_rows(tmp_path, *overconfident(3.0), "--remove", 2, "--calibrate")
    assert code == 0
    temperature = OutputFilter.load(tmp_path / "f").temperature
    line = f"Temperature {temperature:.4g}; calibration error 0\\.(\\d+) before, 0\\.(\\d+) after"
    before, after = re.search(line, said).groups()
    assert int(after) < int(before)


def test_rows_no_better_than_chance_are_refused_unless_they_are_allowed(tmp_path):
    rows, truth = overconfident(1.0)
    other = (truth + 1) % 3
    code, said = fit_rows(tmp_path, rows, other, "--remove", 2)
    assert code == 2
    assert "(--allow-chance)" in said
    assert fit_rows(tmp_path, rows, other, "--remove", 2, "--allow-chance")[0] == 0


def large_apply(tmp_path, prelude=""):
    rows = np.full((1_500_000, 4), 0.25, dtype="f4")
    np.save(tmp_path / "large.npy", rows)
    OutputFilter.from_plan({"cat": None}, classes=NAMES).save(tmp_path / "f.safetensors")
    code = f"{prelude}\nfrom unlabel.__main__ import main\nmain()"
    arguments = ["apply", "large.npy", "f.safetensors", "--out", "out.npy"]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )


def test_a_full_disk_leaves_no_half_file(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    with large_apply(tmp_path, limit) as process:
        _, error = process.communicate()
    assert process.returncode == 2
    assert error == "Error: out.npy: it could not be written: File too large.\n"
    assert sorted(os.listdir(tmp_path)) == ["f.safetensors", "large.npy"]


# So slow that the signal comes in time, however busy the machine is.
SLOW = """
import time
from unlabel.filter import OutputFilter
run = OutputFilter.run
OutputFilter.run = lambda *a, **options: (time.sleep(0.5), run(*a, **options))[1]
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_end_leaves_no_half_file(tmp_path, number):
    heard = (
        f"import signal; signal.signal({int(number)}, signal.SIG_DFL)\n{SLOW}"  # under nohup too
    )
    with large_apply(tmp_path, heard) as process:
        while len(os.listdir(tmp_path)) < 3 and process.poll() is None:
            time.sleep(0.001)
        for _ in range(2):  # a closed terminal and its shell both say so
            process.send_signal(number)
        process.communicate()
    assert process.returncode == 128 + number
    assert sorted(os.listdir(tmp_path)) == ["f.safetensors", "large.npy"]


def test_a_run_that_is_to_outlive_its_terminal_does(tmp_path):
    ignored = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{SLOW}"  # as nohup
    with large_apply(tmp_path, ignored) as process:
        while len(os.listdir(tmp_path)) < 3 and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGHUP)
        process.terminate()
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM


def test_a_pipe_is_not_waited_for(reference, tmp_path):
    unlabel("fit", reference, "--remove", "cat", "--out", tmp_path / "f.safetensors")
    pipes = [tmp_path / f"pipe.{ending}" for ending in ("csv", "parquet", "npy", "npz", "json")]
    for pipe in pipes:
        os.mkfifo(pipe)
    fit = ("fit", reference, "--remove", "cat", "--out", tmp_path / "g.safetensors")
    commands = [
        *(("fit", pipe, "--remove", "cat", "--out", tmp_path / "g") for pipe in pipes[:4]),
        ("apply", pipes[0], tmp_path / "f.safetensors", "--out", tmp_path / "out.csv"),
        ("apply", reference, pipes[0], "--out", tmp_path / "out.npz"),
        ("inspect", pipes[0]),
        ("evaluate", reference, "--filter", pipes[0]),
        ("evaluate", reference, "--remove", "cat", "--retrained", pipes[0]),
        ("report", pipes[4], "--out", tmp_path / "r.html"),
        (*fit, "--classes", pipes[0]),
    ]
    before = sorted(os.listdir(tmp_path))
    code = "import json, sys; sys.path.append(sys.argv[1]); from commands import unlabel; "
    code += "print(json.dumps([unlabel(*of) for of in json.loads(sys.argv[2])]))"
    run = subprocess.run(  # in a process of its own, which can be ended if it waits
        [
            sys.executable,
            "-c",
            code,
            Path(__file__).parents[1] / "helpers",
            json.dumps(commands, default=str),
        ],
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    for code, _, error in json.loads(run.stdout):
        assert code == 2
        assert re.fullmatch(
            r"Error: .*pipe\.\w+: it could not be read: it is not a regular file\.\n", error
        )
    assert sorted(os.listdir(tmp_path)) == before


def test_a_killed_run_leaves_nothing_under_the_outputs_name(tmp_path):
    with large_apply(tmp_path, SLOW) as process:
        while len(os.listdir(tmp_path)) < 3 and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out.npy").exists()


def test_the_missing_extra_is_named(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    run = subprocess.run(
        [sys.executable, "-m", "unlabel", "--help"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr == "Error: The module typer is not installed: pip install 'unlabel[cli]'.\n"
