"""`unlabel apply` between pipes: the same rows, messages apart, and a quiet end."""

import csv
import gzip
import io
import os
import pty
import re
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from commands import unlabel
from unlabel import OutputFilter

NAMES = ["cat", "dog", "fox"]
PROGRAM = [sys.executable, "-c", "from unlabel.__main__ import main; main()"]
LINE = b"0.5,0.25,0.25,a\n"


@pytest.fixture
def folder(tmp_path):
    OutputFilter.from_plan({"dog": None}, classes=NAMES).save(tmp_path / "f")
    return tmp_path


def start(folder, *arguments, **options):
    """Start `unlabel apply` with pipes for its input, output and messages."""
    options = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | options
    return subprocess.Popen(
        [*PROGRAM, "apply", arguments[0], "f", *arguments[1:]], cwd=folder, **options
    )


def run(folder, *arguments, given=b""):
    """Run `unlabel apply` to its end; return its exit code, output and messages."""
    with start(folder, *arguments) as process:
        out, error = process.communicate(given, timeout=60)
    return process.returncode, out, error.decode()


def table(separator, count=30_000):
    """A csv table with some texts that need quotes, longer than a pipe holds at a time."""
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=count).round(6)
    rows[:, 2] = 1 - rows[:, 0] - rows[:, 1]
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow([*NAMES, "text"])
    odd = {0: "a", 500: f'b{separator} "c"', 501: "d\ne", 20_000: "é" * 70_000}
    writer.writerows([*row, odd.get(at, f"row {at}")] for at, row in enumerate(rows.tolist()))
    return file.getvalue().encode()


@pytest.mark.parametrize(("format", "separator"), [("csv", ","), ("tsv", "\t"), ("csv", ";")])
def test_a_pipe_gives_what_files_give(folder, monkeypatch, format, separator):
    monkeypatch.chdir(folder)
    content = table(separator)
    (folder / f"in.{format}").write_bytes(content)
    options = ("--top-label", "--removed-mass")
    assert unlabel("apply", f"in.{format}", "f", "--out", f"out.{format}", *options)[0] == 0
    through_files = (folder / f"out.{format}").read_bytes()
    message = "standard output: 30,000 rows written; the top label changed in "
    for arguments, given in (
        (("-", "--format", format), content),
        ((f"in.{format}", "--out", "-"), b""),
    ):
        code, out, error = run(folder, *arguments, *options, given=given)
        assert code == 0
        assert out == through_files
        assert error.startswith(message)
        assert error.count("\n") == 1
    code, out, error = run(folder, "-", "--format", format, "--out", "piped.csv.gz", given=content)
    assert (code, out) == (0, b"")
    assert error.startswith("piped.csv.gz: 30,000 rows written; ")
    packed = (folder / "piped.csv.gz").read_bytes()
    assert gzip.decompress(packed).count(b"\n") == through_files.count(b"\n")


def test_ids_of_a_piped_long_table_in_any_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    ids = [*range(10_000, 30_000), *range(9_999, 5_000, -1)]
    cells = [f"{i},cat,0.5\n{i},dog,0.25\n{i},fox,0.25\n" for i in ids]
    content = ("id,label,score\n" + "".join(cells)).encode()
    (folder / "in.csv").write_bytes(content)
    long = ("--long", "id,label,score")
    assert unlabel("apply", "in.csv", "f", *long, "--out", "out.csv")[0] == 0
    piped = ("-", "--format", "csv", *long)
    assert run(folder, *piped, given=content)[:2] == (0, (folder / "out.csv").read_bytes())
    code, _, error = run(folder, *piped, given=content + b"20000,cat,1\n")
    assert code == 2
    assert error.startswith("Error: standard input: the id '20000' comes back in row 74997,")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (b"x\n", "standard input, line 1: it is not JSON"),
        (
            b'{"cat": 0.5, "dog": 0.5, "fox": 0.5}\n',
            "standard input, line 1: it is not a prob",
        ),
        (gzip.compress(b"x", mtime=0), "standard input: the file is packed with gzip"),
    ],
)
def test_messages_about_piped_lines_name_standard_input(folder, given, says):
    code, out, error = run(folder, "-", "--format", "jsonl", given=given)
    assert (code, out) == (2, b"")
    assert error.startswith(f"Error: {says}")


def test_files_may_be_packed_or_named_otherwise(folder):
    content = b"cat,dog,fox,text\n" + LINE * 3
    (folder / "in.csv.gz").write_bytes(gzip.compress(content))
    (folder / "table.txt").write_bytes(content)
    expected = b"cat,fox,text\n" + b"0.6666666666666666,0.3333333333333333,a\n" * 3
    for arguments in (("in.csv.gz",), ("table.txt", "--format", "csv")):
        assert run(folder, *arguments, "--out", "-")[:2] == (0, expected)


def test_remarks_go_where_messages_go(folder):
    content = b"cat,dog,fox,answer\n" + b".5,.25,.25,cat\n.2,.7,.1,dog\n"
    code, out, error = run(folder, "-", "--format", "csv", given=content)
    assert code == 0
    assert out.count(b"\n") == 3
    assert "The column 'answer' still names removed or changed labels in 1 row" in error


@pytest.mark.parametrize("is_unbuffered", ["", "1"])
def test_rows_are_answered_as_they_come(folder, is_unbuffered):
    env = os.environ | {"PYTHONUNBUFFERED": is_unbuffered}
    with start(folder, "-", "--format", "csv", env=env) as process:
        process.stdin.write(b"cat,dog,fox,text\n" + LINE + b"0.125,0.7")
        process.stdin.flush()
        assert process.stdout.readline() == b"cat,fox,text\n"
        assert process.stdout.readline() == b"0.6666666666666666,0.3333333333333333,a\n"
        process.stdin.write(b'5,0.125,"b\n')
        process.stdin.flush()
        process.stdin.write(b'c"\n')
        process.stdin.flush()
        assert process.stdout.readline() == b'0.5,0.5,"b\n'
        assert process.stdout.readline() == b'c"\n'
        assert process.communicate(timeout=60)[0] == b""
    assert process.returncode == 0


def test_a_reader_who_has_enough_ends_the_run_quietly(folder):
    (folder / "in.csv").write_bytes(b"cat,dog,fox,text\n" + LINE * 300_000)
    for source in ("-", "in.csv"):
        with (
            open(folder / "in.csv", "rb") as given,
            start(folder, source, "--format", "csv", "--out", "-", stdin=given) as process,
        ):
            assert process.stdout.readline() == b"cat,fox,text\n"
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 128 + signal.SIGPIPE


def test_input_without_an_end_is_not_waited_for(folder):
    code = "import sys\nwhile True: sys.stdout.write('.5,.25,.25\\n' * 1000)"
    header = "printf 'cat,dog,fox\\n'"
    unlabel_it = f"""{sys.executable} -c '{PROGRAM[2]}' apply - f --format csv"""
    shell = f"""({header}; {sys.executable} -c "{code}" 2>/dev/null) | {unlabel_it} | head -1"""
    shell += "; echo ${PIPESTATUS[1]}"
    ended = subprocess.run(
        ["bash", "-c", shell], cwd=folder, capture_output=True, timeout=60, check=True
    )
    assert ended.stdout == b"cat,fox\n141\n"
    assert ended.stderr == b""


@pytest.mark.parametrize("is_unbuffered", ["", "1"])
def test_a_closed_pipe_is_noticed_at_the_end_at_the_latest(folder, is_unbuffered):
    env = os.environ | {"PYTHONUNBUFFERED": is_unbuffered}
    with start(folder, "-", "--format", "csv", env=env) as process:
        process.stdout.close()
        _, error = process.communicate(b"cat,dog,fox,text\n" + LINE, timeout=60)
    assert (process.returncode, error) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("out", ["-", "out.csv"])
def test_a_run_that_waits_for_input_can_be_ended(folder, out):
    (folder / "in.csv").write_bytes(b"cat,dog,fox,text\n" + LINE)
    with start(folder, "-", "--format", "csv", "--out", out) as process:
        process.stdin.write(b"cat,dog,fox,text\n" + LINE)
        process.stdin.flush()
        if out == "-":
            assert process.stdout.readline() == b"cat,fox,text\n"
        else:
            while len(os.listdir(folder)) < 3 and process.poll() is None:
                pass
        process.terminate()
        process.wait(timeout=60)
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGTERM
    assert sorted(os.listdir(folder)) == ["f", "in.csv"]


def test_an_error_comes_after_the_rows_before_it(folder):
    content = b"cat,dog,fox,text\n" + LINE * 5000
    with start(folder, "-", "--format", "csv") as process:
        process.stdin.write(content)
        process.stdin.flush()
        first = [process.stdout.readline() for _ in range(5001)]
        rest, error = process.communicate(b"0.5,0.5,0.5,a\n", timeout=60)
    assert process.returncode == 2
    assert first[-1] == b"0.6666666666666666,0.3333333333333333,a\n"
    assert rest == b""
    assert error.startswith(b"Error: standard input, row 5000: ")
    assert error.count(b"\n") == 1


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (("-",), b"", "Standard input has no ending: .*[(]--format[)]"),
        (("-", "--format", "parquet"), b"", "Tables in parquet cannot be piped"),
        (("-", "--format", "feather"), b"", "Tables in feather cannot be piped"),
        (("-", "--format", "npy"), b"", "Tables in npy cannot be piped"),
        (("in.parquet", "--out", "-"), b"", "Tables in parquet cannot be piped"),
        (("in.parquet",), b"", r"Name the table to write.*\(--out\)"),
        (("in.csv", "--out", "out.xlsx"), b"", "no known ending"),
        (("-", "--format", "csv"), b"", "standard input: it could not be read as csv"),
        (("-", "--format", "csv"), b"cat,dog\n.5,.5\n", "standard input: it has no column 'fox'"),
        (
            ("-", "--format", "csv"),
            gzip.compress(b"cat", mtime=0),
            "standard input: .*packed with gzip",
        ),
        (
            ("-", "--format", "tsv"),
            b"cat\tdog\tfox\n1\t0\n",
            "standard input, row 0: .* 2 for 3",
        ),
        (
            ("in.csv", "--out", "o.csv", "--engine", "spark", "--separator", ";"),
            b"",
            r"Spark does not have this: leave it out \(--separator\)",
        ),
    ],
)
def test_a_mistake_gets_one_sentence(folder, monkeypatch, arguments, given, words):
    pa.parquet.write_table(pa.table({name: [1 / 3] for name in NAMES}), folder / "in.parquet")
    (folder / "in.csv").write_bytes(b"cat,dog,fox,text\n" + LINE)
    before = sorted(os.listdir(folder))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    code, out, error = unlabel("apply", arguments[0], "f", *arguments[1:])
    assert (code, out) == (2, "")
    assert error.startswith("Error: ")
    assert error.count("\n") == 1
    assert re.search(words, error)
    assert sorted(os.listdir(folder)) == before


# Not os.wait4's peak: it is that of the process of the tests, if that is larger.
MEASURED = """
import atexit, sys
peak = lambda: open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
atexit.register(lambda: print(peak(), file=sys.stderr))
from unlabel.__main__ import main; main()
"""


def test_a_row_of_no_end_is_refused_in_little_memory(folder):
    command = [sys.executable, "-c", MEASURED, "apply", "-", "f", "--format", "csv"]
    with open("/dev/zero", "rb") as zeros:
        run = subprocess.run(command, cwd=folder, stdin=zeros, capture_output=True, check=False)
    error, kibibytes = run.stderr.decode().splitlines()
    assert run.returncode == 2
    assert error.startswith("Error: standard input: a row has more than 64 MiB, or a quote is not")
    assert int(kibibytes) < 500 << 10


@pytest.mark.parametrize("is_unbuffered", ["", "1"])
def test_a_full_disk_is_said(folder, is_unbuffered):
    env = os.environ | {"PYTHONUNBUFFERED": is_unbuffered}
    with (
        open("/dev/full", "wb") as full,
        start(folder, "-", "--format", "csv", env=env, stdout=full) as process,
    ):
        _, error = process.communicate(b"cat,dog,fox,text\n" + LINE, timeout=60)
    assert process.returncode == 2
    assert error == b"Error: standard output: it could not be written: No space left on device.\n"


def test_a_terminal_is_not_waited_for(folder):
    ours, theirs = pty.openpty()
    try:
        with start(folder, "-", "--format", "csv", stdin=theirs) as process:
            _, error = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 2
    assert b"nothing is piped into standard input: give a file in place of -." in error


def test_closed_standard_streams(folder):
    (folder / "in.csv").write_bytes(b"cat,dog,fox,text\n" + LINE)
    program = f"{sys.executable} -c '{PROGRAM[2]}' apply"
    for command in (f"{program} - f --format csv <&-", f"{program} in.csv f --out - >&-"):
        ended = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, timeout=60)
        assert ended.returncode == 2
        assert ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "-", "--remove", "cat", "--out", "g"),
        ("evaluate", "-", "--remove", "cat"),
        ("evaluate", "in.csv", "--remove", "cat", "--retrained", "-"),
    ],
)
def test_only_apply_reads_standard_input(folder, arguments):
    code, out, error = unlabel(*arguments)
    assert (code, out) == (2, "")
    assert error == "Error: Only apply reads standard input: give the table as a file.\n"
