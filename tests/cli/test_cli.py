import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from commands import unlabel
from unlabel import LabelRemover, OutputFilter

NAMES = ["cat", "dog", "fox", "owl"]


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


def test_inspect_tells_what_goes_where(reference, tmp_path):
    out = tmp_path / "f.safetensors"
    unlabel("fit", reference, "--remove", "owl", "--remove", "cat", "--out", out)
    code, text, _ = unlabel("inspect", out)
    assert code == 0
    assert "2: 'owl', 'cat'" in text
    assert "2: 'dog', 'fox'" in text
    fitted = OutputFilter.load(out)
    assert f"{fitted.filtered_means()[0].max():.1%}" in text
    assert str(fitted.counts[1]) in text


def test_inspect_says_that_it_shows_the_output_of_a_mean_and_not_a_mean_of_outputs(tmp_path):
    rows = [[0.75, 0.25, 0.0], [0.25, 0.375, 0.375]]
    fitted = LabelRemover([0]).fit(rows, [0, 0]).filter_
    fitted.save(tmp_path / "f")
    _, text, _ = unlabel("inspect", tmp_path / "f")
    of_the_mean = fitted.apply([[0.5, 0.3125, 0.1875]])[0, 0]
    mean_of_outputs = fitted.apply(rows)[:, 0].mean()
    assert f"{of_the_mean:.1%}" in text
    assert f"{mean_of_outputs:.1%}" not in text
    assert "Where the mean vector of each retired label goes" in text
    assert "The mean of its filtered rows can differ" in text


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
        LabelRemover([label], classes=classes).fit(rows, classes[rows.argmax(axis=1)]).filter_.save(
            path
        )
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
    remover = LabelRemover(range(300), method="mask").fit(np.full((1, 1000), 1e-3))
    remover.filter_.save(tmp_path / "f.safetensors")
    code, text, _ = unlabel("inspect", tmp_path / "f.safetensors")
    assert code == 0
    assert "280 more" in text
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize("command", ["fit", "apply"])
def test_an_output_is_overwritten_only_by_force(reference, tmp_path, command):
    retired = tmp_path / "f.safetensors"
    unlabel("fit", reference, "--remove", "cat", "--out", retired)
    arguments = {
        "fit": ["fit", reference, "--remove", "cat"],
        "apply": ["apply", retired, reference],
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
        ([], "Give either remove=.* or keep="),
        (
            ["--remove", "cat", "--keep", "dog"],
            "Give either remove=.* or keep=",
        ),
        ([x for name in NAMES for x in ("--remove", name)], "All 4 labels"),
        (["--remove", "cat", "--input", "logits"], "are probabilities"),
        (["--remove", "cat", "--method", "literal", "--calibrate"], "literal"),
        (["--remove", "cat", "--classes", "@absent.txt"], "absent.txt"),
    ],
)
def test_a_mistake_gets_one_sentence(reference, tmp_path, arguments, words):
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", reference, *arguments, "--out", out)
    assert code == 2
    assert error.count("\n") == 1
    assert re.search(words, error)
    assert not out.exists()


def test_a_label_without_reference_rows_is_named(tmp_path):
    rows = np.eye(3)[[0, 0, 1]]
    np.savez(tmp_path / "r.npz", p=rows, label=[0, 0, 1])
    code, _, error = unlabel("fit", tmp_path / "r.npz", "--remove", 2, "--out", tmp_path / "f")
    assert (code, os.listdir(tmp_path)) == (2, ["r.npz"])
    assert "label 2 has no reference rows" in error


def test_calibrate_needs_enough_rows(tmp_path):
    rows = np.full((6, 3), 1 / 3)
    np.savez(tmp_path / "r.npz", p=rows, label=[0, 1, 2, 0, 1, 2])
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", tmp_path / "r.npz", "--remove", 2, "--calibrate", "--out", out)
    assert code == 2
    assert "at least 50" in error
    assert "found 4" in error


def large_apply(tmp_path, prelude=""):
    rows = np.full((1_500_000, 4), 0.25, dtype="f4")
    np.save(tmp_path / "large.npy", rows)
    remover = LabelRemover(["cat"], classes=NAMES, method="mask").fit(rows[:1])
    remover.filter_.save(tmp_path / "f.safetensors")
    code = f"{prelude}\nfrom unlabel.__main__ import main\nmain()"
    arguments = ["apply", "f.safetensors", "large.npy", "--out", "out.npy"]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )


def test_a_full_disk_leaves_no_half_file(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    with large_apply(tmp_path, limit) as process:
        _, error = process.communicate()
    assert process.returncode == 2
    assert error == "Error: out.npy could not be written: File too large.\n"
    assert sorted(os.listdir(tmp_path)) == ["f.safetensors", "large.npy"]


# So slow that the signal comes in time, however busy the machine is.
SLOW = """
import time
from unlabel.filter import OutputFilter
apply = OutputFilter.filter_checked
OutputFilter.filter_checked = lambda *a, **options: (time.sleep(0.5), apply(*a, **options))[1]
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_end_leaves_no_half_file(tmp_path, number):
    with large_apply(tmp_path, SLOW) as process:
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
        ("apply", tmp_path / "f.safetensors", pipes[0], "--out", tmp_path / "out.csv"),
        ("apply", pipes[0], reference, "--out", tmp_path / "out.npz"),
        ("inspect", pipes[0]),
        ("evaluate", reference, "--filter", pipes[0]),
        ("evaluate", reference, "--remove", "cat", "--retrained", pipes[0]),
        ("report", pipes[4], "--out", tmp_path / "r.html"),
        (*fit, "--classes", f"@{pipes[0]}"),
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
            r"Error: .*pipe\.\w+ could not be read: it is not a regular file\.\n", error
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
    assert run.stderr == "Error: typer is not installed: pip install 'unlabel[cli]'.\n"
