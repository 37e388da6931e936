"""The attack on outputs, and what it finds on those that are shipped."""

from pathlib import Path

import numpy as np
import pytest

from research import attack
from research.attack import attack_auc
from research.reference_rows import shipped
from unlabel import UnlabelError

DOCS = Path(__file__).parents[2] / "docs"


def test_attack_on_outputs_that_tell_nothing_and_on_ones_that_tell_all():
    draw = np.random.default_rng(9)
    alike = draw.dirichlet(np.ones(6), 6000)
    assert attack_auc(alike[:1000], alike[1000:]) == pytest.approx(0.5, abs=0.04)
    other = draw.dirichlet(np.full(6, 200.0), 500)
    peaked = draw.dirichlet(np.full(6, 0.05), 3000)
    assert attack_auc(other, peaked) > 0.99
    one_hot = np.eye(6)[draw.integers(0, 6, 50)]
    assert attack_auc(other, one_hot) == 1
    assert attack_auc(np.ones((9, 1)), np.ones((9, 1))) == 0.5


def test_attack_is_repeatable_and_bounded(monkeypatch):
    draw = np.random.default_rng(10)
    rows, others = draw.dirichlet(np.ones(3), 400), draw.dirichlet(np.full(3, 1.5), 400)
    assert attack_auc(rows, others, seed=1) == attack_auc(rows, others, seed=1)
    assert attack_auc(rows, others, seed=1) != attack_auc(rows, others, seed=2)
    seen = []
    monkeypatch.setattr(attack, "ROWS", 300)
    monkeypatch.setattr(
        attack,
        "cross_val_score",
        lambda attacker, clues, is_removed, **_: seen.extend(is_removed) or np.zeros(1),
    )
    attack_auc(rows, others[:200])
    assert (seen.count(0), seen.count(1)) == (200, 300)


def test_too_few_rows_are_refused():
    with pytest.raises(UnlabelError, match="2 rows of removed and 10 of retained labels"):
        attack_auc(np.ones((2, 1)), np.ones((10, 1)))


def test_the_pages_have_what_the_attack_finds():
    found = [attack.attacked(task) for task in shipped().values()]
    for output in ("OSR", "OSR, calibrated", "mask"):
        assert [round(of[output], 2) for of in found] == [0.99] * 4
    retrained = [of[name] for of in found for name in ("retrained", "retrained again")]
    assert [f"{end:.2f}" for end in (min(retrained), max(retrained))] == ["0.83", "0.96"]
    page = (DOCS / "concepts" / "scope.md").read_text(encoding="utf-8")
    assert "an AUC of about .99. With a retrained model it is .83 to .96" in " ".join(page.split())
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert f"AUC .99 against {found[1]['retrained']:.2f}".replace(" 0.", " .") in readme
