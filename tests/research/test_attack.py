"""The attack on outputs."""

from unittest.mock import Mock

import numpy as np
import pytest

from research import attack
from research.attack import attack_auc


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
    score = Mock(return_value=np.zeros(1))
    monkeypatch.setattr(attack, "ROWS", 300)
    monkeypatch.setattr(attack, "cross_val_score", score)
    attack_auc(rows, others[:200])
    assert np.bincount(score.call_args.args[2]).tolist() == [200, 300]
