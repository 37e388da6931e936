"""Files that are not filters: one sentence each, no code run, little time and memory."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save as to_bytes

from unlabel import OutputFilter, UnlabelError

MARKER = "ran.txt"
MEGABYTE = 1 << 20


class Payload:
    """A pickle whose loading would leave a file behind."""

    def __reduce__(self):
        return (open, (MARKER, "w"))


# Of ["keep",[["dog",[]],["cat",[]],["fox",[["owl",0.25],["elk",0.75]]]]] and of ["keep",[]].
DIGEST = "0baff41776c8552383c0f61917cbbe17cc96384953e3c7b14dd10a5a0a6d8e33"
DIGEST_OF_NOTHING = "794ab6ff80d11109f29eceb4d44effd2c35512b9baff4e62cacc1fa0a3d00405"
PLAN = {
    "title": "",
    "note": "",
    "unlisted": "keep",
    "changes": [[1, None], [0, None], [2, [["owl", 0.25], ["elk", 0.75]]]],
    "digest": DIGEST,
}
DESCRIPTION = {
    "protocol": 1,
    "classes": ["cat", "dog", "fox", "owl"],
    "plan": PLAN,
    "method": "osr",
    "kind": "probabilities",
    "temperature": 1.0,
}
TENSORS = {
    "means": np.array([[0.1, 0.7, 0.1, 0.1], [0.8, 0.0, 0.1, 0.1]]),
    "shares": np.array([[0.2, 0.0, 0.2, 0.2], [0.0, 0.0, 0.3, 0.2]]),
    "counts": np.array([5, 6]),
}


def described(text=None, **fields):
    """Make a file whose description has fields changed or dropped."""
    description = {k: v for k, v in {**DESCRIPTION, **fields}.items() if v is not DROPPED}
    text = json.dumps(description) if text is None else text
    return to_bytes(TENSORS, metadata={"unlabel": text})


def planned(**fields):
    """Make a file whose plan has fields changed or dropped; its digest stays."""
    return described(plan={k: v for k, v in {**PLAN, **fields}.items() if v is not DROPPED})


def changing(at, to):
    """Make a file of a plan that has another change."""
    changes = [*PLAN["changes"]]
    changes[at] = to
    return planned(changes=changes)


def holding(**tensors):
    """Make a file with tensors changed or dropped."""
    tensors = {k: v for k, v in {**TENSORS, **tensors}.items() if v is not DROPPED}
    return to_bytes(tensors, metadata={"unlabel": json.dumps(DESCRIPTION)})


def changed(name, at, value):
    tensor = TENSORS[name].copy()
    tensor[at] = value
    return holding(**{name: tensor})


def naming(classes):
    """Make a file of a filter that changes none of the labels given as JSON."""
    n = classes.count(",") + 1
    unchanged = {"changes": [], "digest": DIGEST_OF_NOTHING}
    description = json.dumps({**DESCRIPTION, "classes": 0, "plan": PLAN | unchanged})
    empty = np.zeros((0, n))
    return to_bytes(
        {"means": empty, "shares": empty, "counts": np.zeros(0, dtype=np.int64)},
        metadata={"unlabel": description.replace('"classes": 0', f'"classes": {classes}')},
    )


def headed(header, data=b"", length=None):
    """Make a file with the given header, and perhaps a wrong length for it."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def pointing(**entries):
    """Make a file whose header points to other offsets of its data."""
    header = {"__metadata__": {"unlabel": json.dumps(DESCRIPTION)}}
    header["means"] = {"dtype": "F64", "shape": [2, 4], "data_offsets": [0, 64]}
    header["shares"] = {"dtype": "F64", "shape": [2, 4], "data_offsets": [64, 128]}
    header["counts"] = {"dtype": "I64", "shape": [2], "data_offsets": [128, 144]}
    return headed({**header, **entries}, bytes(144))


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


DROPPED = object()
GOOD = described()
HEADER_END = 8 + struct.unpack("<Q", GOOD[:8])[0]
PICKLE = pickle.dumps(Payload())

# name of the file: its content
CORPUS = {
    "empty": b"",
    **{
        f"cut-at-{at}": GOOD[:at]
        for at in (1, 7, 8, 9, 100, HEADER_END // 2, HEADER_END - 1, HEADER_END, len(GOOD) - 1)
    },
    "longer-than-it-says": GOOD + b"\0",
    "zeros": bytes(4096),
    "header-of-all-ones": b"\xff" * 64,
    "header-of-minus-one": headed(b"{}", length=2**64 - 1),
    "header-of-2-to-the-63": headed(b"{}", length=2**63),
    "header-of-an-exabyte": headed(b"{}", length=2**60),
    "header-one-byte-too-long": headed(b"{}", length=3),
    "header-of-50-megabytes": headed(b" " * (50 * MEGABYTE)),
    "header-that-is-not-json": headed(b"not JSON at all"),
    "header-that-is-not-text": headed(b'{"\xff\xfe":1}'),
    "header-that-is-a-list": headed([1, 2, 3]),
    "header-that-is-empty": headed({}),
    "header-that-is-deep": headed(b"[" * MEGABYTE),
    "no-metadata": to_bytes(TENSORS),
    "metadata-of-another-library": to_bytes(TENSORS, metadata={"format": "pt"}),
    "metadata-that-is-no-text": headed({"__metadata__": {"unlabel": 1}}),
    "metadata-that-is-a-text": headed({"__metadata__": "unlabel"}),
    "description-that-is-not-json": described("protocol: 1"),
    "description-that-is-empty": described(""),
    "description-with-an-open-text": described('{"protocol":"' + "a" * MEGABYTE),
    "description-of-nan": described(json.dumps({**DESCRIPTION, "temperature": float("nan")})),
    "description-of-infinity": described('{"temperature": Infinity}'),
    "description-that-is-a-list": described("[1]"),
    "description-that-is-null": described("null"),
    "description-that-is-deep": described("[" * MEGABYTE + "]" * MEGABYTE),
    "description-that-is-deep-enough": described("[" * 990 + "]" * 990),
    "description-of-deep-objects": described('{"a":' * MEGABYTE),
    "description-of-a-long-number": described(f'{{"protocol": {"9" * MEGABYTE}}}'),
    "protocol-missing": described(protocol=DROPPED),
    "protocol-newer": described(protocol=2),
    "before-the-first-release": described(input="probabilities"),
    "protocol-much-newer": described('{"protocol": 99, "something": {"new": [1, 2]}}'),
    "protocol-zero": described(protocol=0),
    "protocol-negative": described(protocol=-1),
    "protocol-text": described(protocol="1"),
    "protocol-null": described(protocol=None),
    "field-missing": described(kind=DROPPED),
    "field-too-many": described(pickle="gASVAAAA"),
    "classes-text": described(classes="abcd"),
    "classes-object": described(classes=dict.fromkeys("abcd", 1)),
    "classes-empty": described(classes=[]),
    "classes-twice": described(classes=["cat", "dog", "fox", "dog"]),
    "classes-of-one-text": naming('["cat", 1, "1"]'),
    "classes-boolean": described(classes=["cat", "dog", "fox", True]),
    "classes-half": described(classes=["cat", "dog", "fox", 1.5]),
    "classes-nested": described(classes=["cat", "dog", ["fox"], "owl"]),
    "classes-null": described(classes=["cat", "dog", None, "owl"]),
    "classes-infinite": described(json.dumps(DESCRIPTION).replace('"owl"', "1e999")),
    "classes-no-text": described(json.dumps(DESCRIPTION).replace("owl", "\\ud800")),
    "classes-too-few": described(classes=["cat", "dog", "fox"]),
    "classes-that-are-many-lists": naming("[" + ",".join(["[]"] * 1_300_000) + "]"),
    "classes-that-are-many-objects": naming("[" + ",".join(["{}"] * 1_300_000) + "]"),
    "classes-that-are-millions-of-lists": naming("[" + ",".join(["[]"] * 2_700_000) + "]"),
    "classes-that-are-many-zeros": naming("[" + ",".join(["0"] * 1_000_000) + "]"),
    "classes-many-and-the-last-twice": naming(str([*range(500_000), 499_999])),
    **{f"plan-{plan}": described(plan=plan) for plan in (0, [], {}, None)},
    **{f"plan-without-{name}": planned(**{name: DROPPED}) for name in PLAN},
    "plan-without-a-digest": planned(digest=None),
    "plan-with-more": planned(more=[]),
    "plan-of-changes-that-are-a-text": planned(changes="1022"),
    "plan-of-changes-that-are-numbers": planned(changes=[1, 0]),
    "plan-of-changes-of-three": planned(changes=[[1, None, None]]),
    "plan-from-a-label": changing(at=0, to=["dog", None]),
    "plan-from-a-column-that-is-not-there": changing(at=2, to=[4, "elk"]),
    "plan-from-a-column-that-is-a-float": changing(at=0, to=[1.0, None]),
    "plan-from-a-column-twice": changing(at=2, to=[0, "elk"]),
    "plan-of-a-split-without-weights": changing(at=2, to=[2, ["owl", "elk"]]),
    "plan-of-a-split-with-one-weight": changing(at=2, to=[2, [["owl", 1.0], ["elk"]]]),
    "plan-of-weights-that-sum-to-2": changing(at=2, to=[2, [["owl", 1.0], ["elk", 1.0]]]),
    "plan-of-a-negative-weight": changing(at=2, to=[2, [["owl", -0.25], ["elk", 1.25]]]),
    "plan-of-a-weight-that-is-true": changing(at=2, to=[2, [["owl", True], ["elk", 0.5]]]),
    "plan-of-a-split-into-one-label": changing(at=2, to=[2, [["elk", 0.25], ["elk", 0.75]]]),
    "plan-to-an-object": changing(at=2, to=[2, {"owl": 0.5, "elk": 0.5}]),
    "plan-to-a-number-that-is-no-label": changing(at=2, to=[2, 0.5]),
    "plan-to-a-removed-label": changing(at=2, to=[2, "dog"]),
    "plan-that-removes-one-label-less": changing(at=1, to=[0, "elk"]),
    "plan-that-removes-the-others": planned(unlisted="remove"),
    "plan-of-another-digest": planned(digest="0" * 64),
    "plan-of-a-digest-that-is-a-number": planned(digest=0),
    "plan-title-a-number": planned(title=7),
    "plan-unlisted-unknown": planned(unlisted="drop"),
    "means-missing": holding(means=DROPPED),
    "means-float32": holding(means=TENSORS["means"].astype(np.float32)),
    "means-integers": holding(means=np.ones((2, 4), dtype=np.int64)),
    "means-flat": holding(means=TENSORS["means"].ravel()),
    "means-transposed": holding(means=np.ascontiguousarray(TENSORS["means"].T)),
    "means-nan": changed("means", (0, 1), np.nan),
    "means-infinite": changed("means", (0, 1), np.inf),
    "means-negative": changed("means", (0, 1), -0.1),
    "means-zero": changed("means", 0, 0.0),
    "means-of-ten": changed("means", (0, 1), 10.0),
    "means-of-a-label-removed-before": changed("means", (1, 1), 0.1),
    "shares-missing": holding(shares=DROPPED),
    "shares-nan": changed("shares", (1, 2), np.nan),
    "shares-negative": changed("shares", (1, 2), -0.1),
    "shares-zero": changed("shares", 1, 0.0),
    "shares-of-ten": changed("shares", (1, 2), 10.0),
    "shares-with-the-removed-label": changed("shares", (0, 1), 0.1),
    "shares-with-a-label-removed-before": changed("shares", (1, 1), 0.1),
    "counts-missing": holding(counts=DROPPED),
    "counts-negative": changed("counts", 0, -5),
    "counts-too-many": holding(counts=np.array([5, 6, 7])),
    "counts-floats": holding(counts=np.array([5.0, 6.0])),
    "tensor-too-many": holding(rows=np.eye(4)),
    "statistics-of-a-mask": described(method="mask"),
    **{
        f"temperature-{value}": described(temperature=value)
        for value in (0, -1.0, "1.0", None, [1.0], 1e-320, 1e300)
    },
    "temperature-of-400-digits": described(temperature=10**400),
    **{
        f"method-{value}": described(method=value) for value in ("OSR", "literal", 1, None, ["osr"])
    },
    **{f"kind-{value}": described(kind=value) for value in ("scores", 0, None, {})},
    "offsets-beyond-the-end": pointing(
        counts={"dtype": "I64", "shape": [2], "data_offsets": [128, 2**40]}
    ),
    "offsets-overlapping": pointing(
        shares={"dtype": "F64", "shape": [2, 4], "data_offsets": [0, 64]}
    ),
    "offsets-backwards": pointing(
        shares={"dtype": "F64", "shape": [2, 4], "data_offsets": [128, 64]}
    ),
    "shape-that-overflows": pointing(
        means={"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 64]}
    ),
    "shape-negative": pointing(means={"dtype": "F64", "shape": [-2, -4], "data_offsets": [0, 64]}),
    "type-unknown": pointing(means={"dtype": "PKL", "shape": [2, 4], "data_offsets": [0, 64]}),
    "type-that-a-terminal-obeys": pointing(
        means={"dtype": "\x1b[2J", "shape": [2, 4], "data_offsets": [0, 64]}
    ),
    "pickle": PICKLE,
    "pickle-as-the-data": headed({}, PICKLE),
    "pickle-as-a-label": described(classes=["cat", "dog", "fox", repr(PICKLE)], kind=1),
    "model-of-torch": zipped("archive/data.pkl", PICKLE),
    "archive-of-arrays": zipped("means.npy", npy(TENSORS["means"])),
    "array": npy(TENSORS["means"]),
    "array-of-objects": npy(np.array([Payload()], dtype=object)),
    "table": b"cat,dog,fox\n.5,.3,.2\n",
    "image": b"\x89PNG\r\n\x1a\n" + bytes(100),
}

# Load every file of a folder in turn, and measure. The limit is on address space, which counts
# requested memory, used or not. The peak of a process would not do, as it starts at its parent's.
# Processor time does not depend on other processes; waiting ends at the limit of the whole run.
LOAD_ALL = """
import json, resource, sys, time
from pathlib import Path
from unlabel import OutputFilter, UnlabelError

def limit_growth(size):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size, hard))

OutputFilter.load(sys.argv[1])
answers = {}
for path in sorted(Path().iterdir()):
    if sys.platform == "linux":
        limit_growth(int(sys.argv[2]))
    start = time.process_time()
    try:
        OutputFilter.load(path)
        answer = ["nothing", ""]
    except Exception as error:
        answer = [type(error).__name__, str(error)]
    answers[path.name] = [*answer, time.process_time() - start]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Return the outcome of loading each file of the corpus, and the folder afterwards."""
    folder = tmp_path_factory.mktemp("malformed")
    good = tmp_path_factory.mktemp("good") / "filter"
    good.write_bytes(GOOD)
    for name, content in CORPUS.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link-to-itself").symlink_to("link-to-itself")
    before = sorted(path.name for path in folder.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALL, good, str(200 * MEGABYTE)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {
        "answers": json.loads(done.stdout),
        "stderr": done.stderr,
        "before": before,
        "after": sorted(path.name for path in folder.iterdir()),
        "unchanged": all((folder / name).read_bytes() == CORPUS[name] for name in CORPUS),
    }


OTHERS = ("folder", "pipe", "link-to-itself")


@pytest.mark.parametrize("name", [*CORPUS, *OTHERS])
def test_a_malformed_file_gives_one_sentence_within_a_second_and_200_megabytes(outcome, name):
    kind, message, seconds = outcome["answers"][name]
    assert kind == "UnlabelError"  # MemoryError if it takes more than allowed
    assert message.startswith(f"{name}: ")
    assert message.endswith(".")
    assert message.isprintable()
    assert seconds < 1


def test_the_good_files_beside_them_load(tmp_path):
    (tmp_path / "filter").write_bytes(GOOD)
    loaded = OutputFilter.load(tmp_path / "filter")
    assert (loaded.classes_out, loaded.removed) == (("owl", "elk"), ("dog", "cat"))
    assert loaded.plan.changes["fox"] == {"owl": 0.25, "elk": 0.75}
    (tmp_path / "empty").write_bytes(naming("[1, 2]"))
    assert OutputFilter.load(tmp_path / "empty").classes_out == (1, 2)


def test_no_malformed_file_runs_code(outcome, tmp_path, monkeypatch):
    assert MARKER not in outcome["after"]
    monkeypatch.chdir(tmp_path)
    pickle.loads(PICKLE).close()
    assert (tmp_path / MARKER).exists()  # the payload would have shown itself


def test_no_malformed_file_leaves_a_file_behind(outcome):
    assert outcome["after"] == outcome["before"]
    assert outcome["unchanged"]
    assert outcome["stderr"] == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("protocol-newer", "it has protocol 2, and this version of unlabel reads up to 1: upgrade"),
        ("protocol-much-newer", "it has protocol 99"),
        ("before-the-first-release", "before the first release of unlabel: fit it again"),
        ("plan-of-weights-that-sum-to-2", "weights sum to 2"),
        ("plan-to-a-removed-label", "sends 'fox' to 'dog' and removes 'dog'"),
        ("plan-of-another-digest", "the digest of its plan is another one"),
        ("no-metadata", "without unlabel's description"),
        ("classes-twice", "The label 'dog' appears twice"),
        ("classes-of-one-text", "The label 1 has the text of '1'"),
        ("means-nan", "No rows could give the mean of the removed label 'dog'"),
        ("counts-negative", "is not one count of rows per removed label"),
        ("folder", "it could not be read: it is not a regular file."),
    ],
)
def test_the_sentence_says_what_is_wrong(outcome, name, words):
    assert words in outcome["answers"][name][1]


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        OutputFilter.load(tmp_path / "nowhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="everything may be read by root")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    (tmp_path / "filter").write_bytes(GOOD)
    (tmp_path / "filter").chmod(0)
    with pytest.raises(UnlabelError, match="filter: it could not be read: Permission denied"):
        OutputFilter.load(tmp_path / "filter")


@pytest.mark.parametrize("at", range(0, len(GOOD), 3))
def test_a_changed_byte_gives_a_filter_or_one_sentence(tmp_path, at):
    content = bytearray(GOOD)
    content[at] ^= 0xFF
    (tmp_path / "filter").write_bytes(content)
    try:
        loaded = OutputFilter.load(tmp_path / "filter")
    except UnlabelError as error:
        assert str(tmp_path / "filter") in str(error)  # noqa: PT017
    else:
        assert np.isfinite(loaded.apply(np.full((1, 4), 0.25))).all()
