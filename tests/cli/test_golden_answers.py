"""The command line gives the answers of the golden file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from commands import unlabel
from golden_answers import GOLDEN, LABELS, LISTS, UNKNOWN_ABOVE, golden_filter


@pytest.mark.parametrize("scores", ["renormalised", "absolute"])
def test_allowed_labels_and_unknown_are_those_of_the_golden_file(tmp_path, monkeypatch, scores):
    monkeypatch.chdir(tmp_path)
    columns = dict(zip(LABELS, GOLDEN["rows"].T, strict=True)) | {"place": GOLDEN["lists"]}
    pa.parquet.write_table(pa.table(columns), "rows.parquet")
    golden_filter().save("f.safetensors")
    pairs = [f"{name},{label}" for name in LISTS.names for label in LISTS[name]]
    (tmp_path / "lists.csv").write_text("\n".join(["list,label", *pairs]), encoding="utf-8")
    code, _, error = unlabel(
        *("apply", "f.safetensors", "rows.parquet", "--out", "out.parquet", "--top-label"),
        *("--allow", "lists.csv", "--allow-by", "place", "--scores", scores, "--not-allowed"),
        *("--unknown-above", str(UNKNOWN_ABOVE), "--removed-mass"),
    )
    assert (code, error) == (0, "")
    table = pa.parquet.read_table("out.parquet")
    result = np.column_stack([table[label] for label in GOLDEN["results"]])
    np.testing.assert_allclose(result, GOLDEN[scores], rtol=0, atol=1e-12)
    for name in ("not_allowed", "removed_mass"):
        np.testing.assert_allclose(table[name], GOLDEN[name], rtol=0, atol=1e-12)
    assert table["top_label"].to_pylist() == GOLDEN["answers"].tolist()
