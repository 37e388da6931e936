"""The attack on outputs, and what it finds on those that are shipped."""

import numpy as np
import pytest

from research import attack
from research.attack import attack_auc
from unlabel import UnlabelError


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
