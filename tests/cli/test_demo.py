import os

from commands import unlabel
from unlabel import OutputFilter


def test_the_demo_ends_with_tables_and_two_pages(tmp_path):
    code, out, said = unlabel("demo", "--out", tmp_path / "demo")
    assert code == 0
    for name in ("OSR", "OSR, calibrated", "mask", "retrained", "retrained again, calibrated"):
        assert name in out
    assert "…" not in out  # nothing is cut off in 80 columns
    assert str(tmp_path / "demo" / "report.html") in said
    assert str(tmp_path / "demo" / "explore.html") in said
    assert sorted(os.listdir(tmp_path / "demo")) == [
        "cifar10-retrained-again.parquet",
        "cifar10-retrained.parquet",
        "cifar10.parquet",
        "explore.html",
        "predictions.csv",
        "reference.csv",
        "removed.safetensors",
        "report.html",
        "summary.json",
    ]
    assert OutputFilter.load(tmp_path / "demo" / "removed.safetensors").removed == (
        "three",
        "eight",
    )
    # What it leaves is what the other commands take, and gives the same filter.
    again = tmp_path / "again.safetensors"
    removed = ("--remove", "three", "--remove", "eight")
    assert unlabel("fit", tmp_path / "demo" / "reference.csv", *removed, "--out", again)[0] == 0
    assert again.read_bytes() == (tmp_path / "demo" / "removed.safetensors").read_bytes()
    table, page = tmp_path / "demo" / "cifar10.parquet", tmp_path / "again.html"
    options = ("--kind", "logits", "--title", "ResNet18 on CIFAR-10", "--out", page)
    assert unlabel("explore", table, *options)[0] == 0
    assert page.read_bytes() == (tmp_path / "demo" / "explore.html").read_bytes()
    (tmp_path / "plan.toml").write_text('[changes]\ncat = "dog"\n')
    merge = tmp_path / "merge.toml"
    merge.write_text('[changes]\ncat = "dog"\n')
    # The lines below a table name the columns that it has.
    retrained = ("--retrained", tmp_path / "demo" / "cifar10-retrained.parquet")
    for changes, exceptions in (
        (("--remove", "airplane", "--remove", "deer", *retrained), " but KL"),
        (("--remove", "airplane"), ""),
        (("--plan", tmp_path / "plan.toml"), ""),
    ):
        code, out, _ = unlabel("evaluate", table, "--kind", "logits", *changes)
        assert code == 0
        said = " ".join(out.split())
        assert f"All values{exceptions} are of rows of retained labels." in said
        assert ("KL is to the retrained model" in said) == ("KL" in exceptions)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    code, _, error = unlabel("demo", "--out", tmp_path / "file" / "demo")
    assert code == 2
    assert error.endswith("demo: it could not be written: Not a directory.\n")
