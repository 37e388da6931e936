import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import doors
from research.settings import Recipe, Strong, Unsir
from research.training import (
    Images,
    _one_cycle,
    descend,
    generator,
    logits_of,
    resize_inputs,
    seeded,
    timed,
    train,
)

CPU = torch.device("cpu")
STILL = Recipe(epochs=1, batch=4, rate=0.1, padding=0, flip=False)


def coloured(n=60):
    """Images whose label is the channel that shines."""
    labels = torch.arange(n) % 3
    images = torch.randint(0, 100, (n, 3, 8, 8), generator=generator(0), dtype=torch.uint8)
    images[torch.arange(n), labels] += 120
    return Images.from_tensors(images, labels, CPU)


@pytest.mark.parametrize("fall", ["linear", "cosine"])
def test_the_rate_rises_in_a_line_and_falls_in_a_line_or_a_cosine(fall):
    rates = [_one_cycle(step, total=100, recipe=replace(STILL, fall=fall)) for step in range(100)]
    assert rates[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    left = np.arange(80, 0, -1) / 80
    falling = left if fall == "linear" else (1 + np.cos(np.pi * (1 - left))) / 2
    assert rates[20:] == pytest.approx(falling)


@pytest.mark.parametrize(
    "settings",
    [
        {"rate": 0.05},
        {"rate": 0.005, "optimiser": "adamw"},
        {"rate": 0.01, "optimiser": "adamw", "strong": Strong(), "fall": "cosine"},
    ],
    ids=["sgd", "adamw", "strong"],
)
def test_training_learns(settings):
    images = coloured()
    recipe = Recipe(epochs=6, batch=16, clip=1.0, **settings)
    with seeded(0):
        model = doors.build_network("small", 3)
    seconds = train(model, images, recipe, 0)
    assert (logits_of(model, images).argmax(axis=1) == images.labels.numpy()).mean() > 0.95
    assert seconds["total"] == pytest.approx(6 * seconds["epoch"])
    assert not model.training


def test_a_seed_gives_the_same_model_and_leaves_the_generator_alone():
    images = coloured(20)
    torch.manual_seed(7)
    expected = torch.rand(3)

    def trained(seed):
        with seeded(seed):
            model = doors.build_network("small", 3)
        train(model, images, STILL, seed)
        return logits_of(model, images)

    torch.manual_seed(7)
    first = trained(0)
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(trained(0), first)
    assert not np.array_equal(trained(1), first)


def test_logits_do_not_depend_on_the_batch(monkeypatch):
    model, images = doors.build_network("small", 3), coloured(10)
    whole = logits_of(model, images)
    monkeypatch.setattr("research.training.EVALUATION_BATCH", 3)
    np.testing.assert_allclose(logits_of(model, images), whole, atol=1e-5)
    assert whole.dtype == np.float32


def test_descent_depends_on_its_generator_alone():
    def descended(seed):
        model = torch.nn.Sequential(torch.nn.Linear(8, 1, bias=False), torch.nn.Dropout(0.5))
        torch.nn.init.ones_(model[0].weight)
        settings = Unsir(batch=2, momentum=0.0)
        inputs, random = torch.eye(8), generator(seed)

        def loss(rows):
            return model(inputs[rows]).square().sum()

        descend(model, loss, 8, random, settings, rate=0.1)
        return model[0].weight.detach()

    first = descended(0)
    torch.rand(3)  # something else has drawn from PyTorch's own generator
    assert torch.equal(descended(0), first)
    assert not torch.equal(descended(1), first)


def test_descent_takes_one_bounded_step_per_batch():
    model = torch.nn.Linear(2, 1)
    before = torch.cat([part.detach().flatten().clone() for part in model.parameters()])
    seen = []

    def loss(rows):
        seen.append(rows)
        return 1e6 * model(torch.ones(len(rows), 2)).sum()

    settings = Unsir(batch=4, momentum=0.0, clip=1.0)
    descend(model, loss, 10, generator(0), settings, rate=0.01, epochs=2)
    after = torch.cat([part.detach().flatten() for part in model.parameters()])
    assert [len(rows) for rows in seen] == [4, 4, 2] * 2
    assert sorted(torch.cat(seen[:3]).tolist()) == list(range(10))
    assert torch.linalg.norm(after - before) == pytest.approx(6 * 0.01, rel=1e-3)


def test_a_few_of_each_label():
    images = coloured(60)
    chosen = images.sample_per_label((0, 2), 7, seed=0)
    assert torch.bincount(chosen.labels).tolist() == [7, 0, 7]
    assert len(images.sample_per_label((1,), 1000, seed=0)) == 20


def test_a_model_can_resize_what_it_is_given():
    sides = []
    model = torch.nn.Sequential(torch.nn.Flatten())
    model[0].register_forward_pre_hook(lambda _, inputs: sides.append(inputs[0].shape[-2:]))
    resize_inputs(model, 16)
    model(torch.zeros(2, 3, 8, 8))
    copy.deepcopy(model)(torch.zeros(2, 3, 8, 8))
    assert sides == [(16, 16)] * 2


def test_seconds_are_noted_once_the_device_is_done(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    seconds = {}
    with timed(seconds, "work", torch.device("cuda", 1)):
        assert waited == [torch.device("cuda", 1)]
    assert len(waited) == 2
    assert seconds["work"] > 0
