"""The cells of the paper's suite: what they are called, and how they are chosen."""

from pathlib import Path

import pytest

from research.grid import cell_of, select
from research.suites import SUITES
from unlabel import UnlabelError

CELLS = [cell for study in SUITES["paper"] for cell in study.cells()]


def test_forget_sets_are_the_papers():
    removed = {(cell.set, cell.forget): cell.removed for cell in CELLS}
    ten = [(), (0,), (0, 4), (0, 4, 7, 9), (0, 2, 3, 4, 6, 7, 9)]
    hundred = [tuple(range(n)) for n in (0, 1, 20, 40, 60)]
    for name, expected in (("cifar10", ten), ("cifar100", hundred), ("faces", hundred)):
        assert [removed[name, f"F{number}"] for number in range(5)] == expected


def test_files_lie_where_they_are_found_again():
    for cell in CELLS:
        path = cell.file(Path("somewhere/results"), ".json")
        assert cell_of(path) == cell
    assert path == Path("somewhere/results/faces/vit_b_16/s1/F4.json")
    assert CELLS[0].weights(Path("r")) == Path("r/weights/cifar10-resnet18-s0.safetensors")


@pytest.mark.parametrize("path", ["F2.json", "cifar10/resnet18/s0/Fx.json", "a/b/0/F1.json"])
def test_other_files_are_not_cells(path):
    assert cell_of(Path(path)) is None


def test_the_paper_has_every_forget_set_and_two_retrainings_everywhere():
    for study in SUITES["paper"]:
        retrained = [cell.forget for cell in study.cells() if "retrain" in study.methods_of(cell)]
        assert sorted(retrained) == sorted(["F1", "F2", "F3", "F4"] * 2)


def test_a_name_selects_cells_by_its_parts():
    assert {str(cell) for cell in select(CELLS, ["cifar10/resnet18/F2"])} == {
        "cifar10/resnet18/s0/F2",
        "cifar10/resnet18/s1/F2",
    }
    assert {cell.set for cell in select(CELLS, ["faces"])} == {"faces"}
    assert len(select(CELLS, ["cifar10/allcnn/s1", "cifar10/allcnn/s1/F0"])) == 5
    assert select(CELLS, []) == CELLS


@pytest.mark.parametrize("name", ["cifar10/vgg", "mnist", "cifar10/resnet18/F5", ""])
def test_a_name_that_matches_nothing_lists_the_choices(name):
    choices = r"No cell matches .*cifar10/resnet18, cifar10/allcnn.*F0, F1"
    with pytest.raises(UnlabelError, match=choices):
        select(CELLS, [name])
