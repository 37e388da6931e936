import copy

import numpy as np
import pytest
import torch

from unlabel.bench.augmentation import as_input, augmented
from unlabel.bench.models import build
from unlabel.bench.suites import Recipe
from unlabel.bench.training import (
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


def numbered(side=8):
    """One image whose pixel values are their positions."""
    at = torch.arange(side * side, dtype=torch.uint8).view(1, 1, side, side)
    return Images.from_tensors(at.expand(1, 3, side, side), torch.zeros(1, dtype=torch.int64), CPU)


def test_inputs_are_normalised_and_channels_last():
    images = coloured(4)
    inputs = as_input(images.pixels)
    assert inputs.shape == (4, 3, 8, 8)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    expected = (images.pixels[0, 0, 0].float() / 255 - torch.tensor([0.485, 0.456, 0.406])) / (
        torch.tensor([0.229, 0.224, 0.225])
    )
    torch.testing.assert_close(inputs[0, :, 0, 0], expected)


def test_without_augmentation_images_stay_as_they_are():
    images = coloured()
    rows = torch.tensor([5, 3, 3])
    assert torch.equal(augmented(images.pixels, rows, STILL, generator(0)), images.pixels[rows])


def test_crops_are_those_of_a_mirrored_image():
    padding, images = 3, numbered()
    recipe = Recipe(epochs=1, batch=1, rate=0.1, padding=padding, flip=False)
    rows = torch.zeros(200, dtype=torch.int64)
    crops = augmented(images.pixels, rows, recipe, generator(0))[..., 0]
    padded = np.pad(images.pixels[0, ..., 0].numpy(), padding, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 8)).reshape(-1, 64)
    allowed = {window.tobytes() for window in windows}
    seen = {crop.tobytes() for crop in crops.reshape(200, -1).numpy()}
    assert seen <= allowed
    assert len(seen) > 40  # of 49


def test_about_half_of_the_images_are_mirrored():
    images = numbered()
    recipe = Recipe(epochs=1, batch=1, rate=0.1, padding=0)
    crops = augmented(images.pixels, torch.zeros(400, dtype=torch.int64), recipe, generator(0))
    mirrored = (crops == images.pixels.flip(2)).flatten(1).all(dim=1)
    straight = (crops == images.pixels).flatten(1).all(dim=1)
    assert (mirrored ^ straight).all()
    assert 150 < mirrored.sum() < 250


def test_the_rate_rises_and_falls_in_a_line():
    rates = [_one_cycle(step, total=100, recipe=STILL) for step in range(100)]
    assert rates[19] == 1.0
    assert rates[0] == 0.05
    assert rates[-1] == pytest.approx(1 / 80)
    assert np.diff(rates[:20]) == pytest.approx(0.05)
    assert np.diff(rates[20:]) == pytest.approx(-1 / 80)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_training_learns(optimiser):
    images = coloured()
    rate = 0.05 if optimiser == "sgd" else 0.005
    recipe = Recipe(epochs=6, batch=16, rate=rate, optimiser=optimiser, clip=1.0)
    with seeded(0):
        model = build("small", 3)
    fractions = []
    seconds = train(model, images, recipe, 0, fractions.append)
    assert (logits_of(model, images).argmax(axis=1) == images.labels.numpy()).mean() > 0.95
    assert fractions == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])
    assert seconds["total"] == pytest.approx(6 * seconds["epoch"])
    assert not model.training


def test_a_seed_gives_the_same_model_and_leaves_the_generator_alone():
    images = coloured(20)
    torch.manual_seed(7)
    expected = torch.rand(3)

    def trained(seed):
        with seeded(seed):
            model = build("small", 3)
        train(model, images, STILL, seed)
        return logits_of(model, images)

    torch.manual_seed(7)
    first = trained(0)
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(trained(0), first)
    assert not np.array_equal(trained(1), first)


def test_logits_do_not_depend_on_the_batch(monkeypatch):
    model, images = build("small", 3), coloured(10)
    whole = logits_of(model, images)
    monkeypatch.setattr("unlabel.bench.training.EVALUATION_BATCH", 3)
    np.testing.assert_allclose(logits_of(model, images), whole, atol=1e-5)
    assert whole.dtype == np.float32


def test_descent_takes_one_bounded_step_per_batch():
    model = torch.nn.Linear(2, 1)
    before = torch.cat([part.detach().flatten().clone() for part in model.parameters()])
    seen = []

    def loss(rows):
        seen.append(rows)
        return 1e6 * model(torch.ones(len(rows), 2)).sum()

    settings = {"batch": 4, "rate": 0.01, "momentum": 0.0, "epochs": 2, "clip": 1.0}
    descend(model, loss, 10, generator(0), **settings)
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


def test_seconds_are_noted():
    seconds = {}
    with timed(seconds, "waiting", CPU):
        sum(range(1000))
    assert seconds["waiting"] > 0


def test_the_clock_waits_for_the_device(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    with timed({}, "work", torch.device("cuda", 1)):
        assert waited == [torch.device("cuda", 1)]
    assert len(waited) == 2
