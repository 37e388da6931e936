"""A small run of the load-and-faults benchmark, which is the same test at its full size."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_every_answer_is_right_or_a_clear_error(tmp_path):
    found = tmp_path / "found.json"
    options = ["--requests", "1000", "--reloads", "2", "--kills", "1", "--out", str(found)]
    run = subprocess.run(
        [sys.executable, str(BENCHMARKS / "serve_faults.py"), *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counted = json.loads(found.read_text())
    assert counted["requests"] >= 1000
    assert sum(counted["outcomes"].values()) == counted["requests"]
    assert counted["outcomes"]["right: first filter"] > 100
    assert counted["outcomes"]["right: second filter"] > 100
    assert counted["outcomes"]["error 502"] > 10
