"""Models that return their confidences in a container, beside other things."""

# ruff: noqa: E402  (optional libraries are looked for first)
import copy
import dataclasses
import pickle
from collections import OrderedDict, defaultdict, namedtuple

import pytest

torch = pytest.importorskip("torch")

import doors
from unlabel import UnlabelError
from unlabel.torch import FilterModule, attach

FITTED = doors.mask([*"abcd"], {"a": None, "b": "c"}, kind="logits")
ROWS = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
ALLOW = torch.tensor([True, False])
Pair = namedtuple("Pair", ["hidden", "logits"])
compilers_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


@dataclasses.dataclass
class Record:
    hidden: torch.Tensor
    logits: torch.Tensor
    note: str = ""


@dataclasses.dataclass
class Derived(Record):
    rows: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.rows = len(self.logits)


class Entries(dict):
    """A dictionary whose entries are attributes too."""

    __getattr__ = dict.__getitem__


# Each makes an output of what is not filtered and what is.
CONTAINERS = {
    "dict": (lambda hidden, logits: {"hidden": hidden, "logits": logits, "loss": None}, "logits"),
    "ordered dict": (
        lambda hidden, logits: OrderedDict(hidden=hidden, logits=logits, loss=None),
        "logits",
    ),
    "default dict": (
        lambda hidden, logits: defaultdict(list, hidden=hidden, logits=logits),
        "logits",
    ),
    "numbered": (lambda hidden, logits: {0: hidden, 1: logits}, 1),
    "tuple": (lambda hidden, logits: (hidden, logits, None), 1),
    "list": (lambda hidden, logits: [hidden, logits], 1),
    "named tuple": (Pair, "logits"),
    "numbered tuple": (Pair, 1),
    "dataclass": (lambda hidden, logits: Record(hidden, logits, "as it was"), "logits"),
}


class Model(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.make = CONTAINERS[name][0]

    def forward(self, rows):
        return self.make(rows + 1, rows)


def parts(output):
    """Give the entries of any container, with their names."""
    if isinstance(output, dict):
        return dict(output)
    return vars(output) if isinstance(output, Record) else dict(enumerate(output))


def assert_filtered(output, name, allow=None):
    key, given = CONTAINERS[name][1], CONTAINERS[name][0](ROWS + 1, ROWS)
    assert type(output) is type(given)
    found, expected = parts(output), parts(given)
    assert [*found] == [*expected]  # in their order
    at = "logits" if "logits" in found else 1
    assert key in (at, "logits", 1)
    torch.testing.assert_close(found.pop(at), FilterModule(FITTED)(expected.pop(at), allow))
    for entry, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(found[entry], value)
        else:
            assert found[entry] == value


@pytest.mark.parametrize("name", CONTAINERS)
def test_one_entry_is_filtered_and_the_others_are_as_they_were(name):
    filtered = attach(Model(name), FITTED, key=CONTAINERS[name][1])
    assert_filtered(filtered(ROWS), name)
    assert_filtered(filtered(ROWS, allow=ALLOW), name, ALLOW)


@pytest.mark.parametrize("kind", [Entries, Derived])
def test_containers_of_other_kinds_stay_what_they_are(kind):
    class Making(torch.nn.Module):
        def forward(self, rows):
            return kind(hidden=rows + 1, logits=rows)

    output = attach(Making(), FITTED, key="logits")(ROWS)
    assert type(output) is kind
    torch.testing.assert_close(output.logits, FilterModule(FITTED)(ROWS))
    assert torch.equal(output.hidden, ROWS + 1)


def test_nothing_of_the_models_output_is_changed():
    class Keeping(torch.nn.Module):
        def forward(self, rows):
            self.output = {"logits": rows, "more": [rows]}
            return self.output

    model = Keeping()
    output = attach(model, FITTED, key="logits")(ROWS)
    assert model.output["logits"] is ROWS
    assert output["more"] is model.output["more"]
    assert isinstance(output, dict)


@compilers_own_warnings
# PyTorch itself makes no default dictionary in one graph.
@pytest.mark.parametrize("name", [name for name in CONTAINERS if name != "default dict"])
def test_a_model_with_a_container_is_one_graph(name):
    filtered = attach(Model(name), FITTED, key=CONTAINERS[name][1])
    compiled = torch.compile(filtered, fullgraph=True, backend="aot_eager")
    assert_filtered(compiled(ROWS, allow=ALLOW), name, ALLOW)


@compilers_own_warnings
@pytest.mark.parametrize("strict", [False, True])
# PyTorch exports no dataclasses that it was not told of.
@pytest.mark.parametrize("name", [name for name in CONTAINERS if name != "dataclass"])
def test_a_model_with_a_container_is_exported(name, strict):
    filtered = attach(Model(name), FITTED, key=CONTAINERS[name][1])
    batch = {0: torch.export.Dim("batch")}
    exported = torch.export.export(
        filtered, (ROWS[:2],), dynamic_shapes={"rows": batch}, strict=strict
    )
    assert_filtered(exported.module()(ROWS), name)


def test_a_model_with_a_key_can_be_pickled_and_copied():
    filtered = attach(TwoOutputs(), FITTED, key="logits")
    for again in (pickle.loads(pickle.dumps(filtered)), copy.deepcopy(filtered)):
        assert torch.equal(again(ROWS)["logits"], filtered(ROWS)["logits"])


class TwoOutputs(torch.nn.Module):
    def forward(self, rows):
        return {"hidden": rows, "logits": rows}


WITHOUT_KEY = {
    "dict": "(dict) has the entries 'hidden', 'logits', 'loss'",
    "ordered dict": "(OrderedDict) has the entries 'hidden', 'logits', 'loss'",
    "tuple": "(tuple) has the entries 0, 1, 2",
    "named tuple": "(Pair) has the entries 0, 1, 'hidden', 'logits'",
    "dataclass": "(Record) has the entries 'hidden', 'logits', 'note'",
}


@pytest.mark.parametrize("key", [None, "scores", 7, -1])
@pytest.mark.parametrize("name", WITHOUT_KEY)
def test_without_the_right_key_the_entries_are_named(name, key):
    filtered = attach(Model(name), FITTED, key=key)
    with pytest.raises(UnlabelError) as caught:
        filtered(ROWS)
    usual = 0 if name == "tuple" else "logits"
    assert str(caught.value) == (
        f"The model's output {WITHOUT_KEY[name]}{'' if key is None else f', not {key!r}'}: name "
        f"the one that holds the confidences, such as {usual!r} (key=)."
    )


def test_a_key_needs_a_container_with_a_tensor():
    with pytest.raises(UnlabelError, match=r"output \(Tensor\) has no entries: leave out 0 "):
        attach(torch.nn.Identity(), FITTED, key=0)(ROWS)
    with pytest.raises(UnlabelError, match="The filter was given NoneType: give one tensor of"):
        attach(Model("dict"), FITTED, key="loss")(ROWS)
    with pytest.raises(UnlabelError, match="has the entries : name"):
        attach(torch.nn.Identity(), FITTED)({})
