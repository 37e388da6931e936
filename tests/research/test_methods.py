"""Each method works as described, on a tiny network trained on real digits."""

import copy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch.nn import functional

import doors
from research import filters
from research.augmentation import as_input
from research.methods import linear_filtration, nhle_cwm, osr, retrain, unsir
from research.models import head
from research.resources import Resources
from research.suites import SUITES
from research.task import Base
from research.training import generator, logits_of, train

pytestmark = pytest.mark.usefixtures("one_thread")

STUDY = SUITES["quick"][0]
SHORT = replace(STUDY, recipe=replace(STUDY.recipe, epochs=1))
UNSIR, NHLE = (doors.settings_of(STUDY, name) for name in ("unsir", "nhle_cwm"))
COMPONENTS = {
    "osr": {"projection", "redistribution"},
    "mask": {"redistribution"},
    "linear_filtration": {"filter", "head"},
    "unsir": {"noise", "retain", "impair", "repair"},
    "nhle_cwm": {"finetune", "masking"},
    "retrain": {"epoch", "total"},
}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """The removal of 0 and 4 from a network that knows the digits."""
    resources = Resources(tmp_path_factory.mktemp("out"), Path(), None, torch.device("cpu"))
    task = resources.task(STUDY, STUDY.cells()[2])
    model = resources.build(STUDY, 10, 0)
    train(model, task.train_images, STUDY.recipe, 0)
    base = Base(model, task.train_images, task.test_images, cache(partial(logits_of, model)))
    return replace(task, load_base=lambda: base)


@pytest.fixture(scope="module")
def is_removed(task):
    return np.isin(task.test_images.labels.numpy(), task.removed)


def accuracy(logits, task, rows):
    return (logits.argmax(axis=1) == task.test_images.labels.numpy())[rows].mean()


@pytest.fixture(scope="module")
def outcomes(task):
    before = {name: weight.clone() for name, weight in task.base.model.state_dict().items()}
    result = {name: doors.run_method(name, task) for name in doors.method_names()}
    after = task.base.model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert not task.base.model.training
    assert all(weight.requires_grad for weight in task.base.model.parameters())
    return result


def test_every_method_is_there_and_leaves_the_base_model_as_it_was(outcomes):
    assert [*outcomes] == [*COMPONENTS]  # the fixture compares the weights


@pytest.mark.parametrize("method", COMPONENTS)
def test_every_method_gives_confidences_of_all_rows_and_seconds(method, outcomes, task):
    outcome = outcomes[method]
    assert outcome.seconds.keys() == COMPONENTS[method]
    assert min(outcome.seconds.values()) >= 0
    columns = 10 if method in ("unsir", "nhle_cwm") else 8
    for confidences in outcome.confidences.values():
        assert confidences.shape == (len(task.test_images), columns)
        np.testing.assert_allclose(confidences.sum(axis=1), 1, atol=1e-5)


def test_retraining_has_the_retained_outputs_and_never_sees_a_removed_image(task, monkeypatch):
    seen = []

    def spy(model, images, recipe, seed):
        seen.append(images)
        return train(model, images, recipe, seed)

    monkeypatch.setattr(retrain, "train", spy)
    outcome = retrain.run(replace(task, study=SHORT))
    (images,) = seen
    kept = ~torch.isin(task.train_images.labels, torch.tensor(task.removed))
    assert torch.equal(images.pixels, task.train_images.pixels[kept])
    labels = torch.tensor(task.retained)[images.labels]
    assert torch.equal(labels, task.train_images.labels[kept])
    assert outcome.logits["retrain"].shape == (len(task.test_images), 8)


def test_another_seed_starts_elsewhere_and_sees_the_images_in_another_order(task):
    seeds = []

    def build_alike(classes, seed):
        seeds.append(seed)
        return task.build(classes, 0)

    alike = replace(task, study=SHORT, build=build_alike)
    first, second = (retrain.run(replace(alike, seed=seed)) for seed in (0, 1))
    assert seeds == [0, 1]
    assert np.abs(first.logits["retrain"] - second.logits["retrain"]).max() > 0.1


@pytest.mark.parametrize("at_most", [None, 30])
def test_osr_is_the_packages_filter_of_at_most_500_rows_per_label(task, at_most, monkeypatch):
    assert osr.ROWS_PER_LABEL == 500  # which is more than there are
    if at_most:
        monkeypatch.setattr(osr, "ROWS_PER_LABEL", at_most)
    outcome = doors.run_method("osr", task)
    labels = task.base.train_labels
    first = np.concatenate([np.flatnonzero(labels == label)[:at_most] for label in (0, 4)])
    expected = filters.osr(task.base.train_logits[first], labels[first], [0, 4])
    assert outcome.filter.counts == expected.counts
    found = outcome.confidences["osr"]
    np.testing.assert_array_equal(found, expected.apply(task.base.test_logits))


def test_mask_drops_and_renormalises(task, outcomes):
    expected = softmax(task.base.test_logits[:, task.retained].astype(np.float64), axis=1)
    np.testing.assert_allclose(outcomes["mask"].confidences["mask"], expected, atol=1e-6)


def test_noise_raises_the_loss_of_its_label_and_leaves_the_model_alone(task):
    model = task.base.model
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    start = replace(UNSIR, noise_steps=0)
    labels = torch.tensor([0] * 20 + [4] * 20)
    drawn, noise = (
        unsir.make_noise(model, labels, (8, 8), settings, generator(0))
        for settings in (start, UNSIR)
    )
    assert noise.shape == (40, 3, 8, 8)
    with torch.no_grad():
        first, last = (
            functional.cross_entropy(model(images), labels, reduction="none")
            for images in (drawn, noise)
        )
    for label in (0, 4):
        assert last[labels == label].mean() > first[labels == label].mean() + 1
    after = model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_a_penalty_keeps_noise_small(task):
    settings = [replace(UNSIR, noise_penalty=penalty) for penalty in (0.0, 0.1, 10.0)]
    labels = torch.zeros(10, dtype=torch.int64)
    sizes = [
        unsir.make_noise(task.base.model, labels, (8, 8), each, generator(0)).square().mean()
        for each in settings
    ]
    assert sizes[0] > sizes[1] > sizes[2]


def test_the_penalty_is_on_the_sum_over_an_images_pixels(monkeypatch):
    monkeypatch.setattr(torch.optim, "Adam", torch.optim.SGD)
    settings = replace(UNSIR, noise_steps=1, noise_rate=0.1, noise_penalty=0.5)
    labels = torch.zeros(5, dtype=torch.int64)
    drawn, noise = (
        unsir.make_noise(Indifferent(), labels, (8, 8), chosen, generator(0))
        for chosen in (replace(settings, noise_steps=0), settings)
    )
    torch.testing.assert_close(noise, drawn * (1 - 0.1 * 0.5 * 2 / 5))


class Indifferent(torch.nn.Module):
    """A network whose outputs do not depend on its images."""

    def forward(self, images):
        return torch.zeros(len(images), 10) + 0 * images.sum()


def test_noise_and_images_go_through_unsir_in_order(task, monkeypatch):
    calls = []

    def make_noise(model, labels, shape, settings, random):
        calls.append(("noise", labels))
        return labels[:, None, None, None].expand(-1, 3, *shape).float()

    def impair(model, noise, noise_labels, retained, settings, random):
        calls.append(("impair", noise[:, 0, 0, 0], noise_labels, retained.labels))

    def repair(model, retained, settings, random):
        calls.append(("repair", retained.labels))

    for stand_in in (make_noise, impair, repair):
        monkeypatch.setattr(unsir, stand_in.__name__, stand_in)
    monkeypatch.setattr(unsir, "NOISE_BATCH", 50)
    unsir.run(task)
    *made, impaired, repaired = calls
    expected = torch.tensor([0, 4]).repeat_interleave(UNSIR.noise_images)
    assert [name for name, _ in made] == ["noise"] * 3
    assert torch.equal(torch.cat([labels for _, labels in made]), expected)
    retained = unsir.retain_set(task).labels
    for given, wanted in zip(impaired[1:], (expected.float(), expected, retained), strict=True):
        assert torch.equal(given, wanted)
    assert (impaired[0], repaired[0]) == ("impair", "repair")
    assert torch.equal(repaired[1], retained)


def test_impairing_and_repairing_have_rates_and_epochs_of_their_own(task, monkeypatch):
    calls = []
    monkeypatch.setattr(unsir, "descend", lambda *given, **rest: calls.append((given[4], rest)))
    own = {"impair_rate": 0.5, "repair_rate": 0.25, "repair_epochs": 3}
    settings, retained = replace(UNSIR, **own), task.train_images.at(torch.arange(3))
    noise, labels = torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64)
    unsir.impair(Corner(), noise, labels, retained, settings, generator(0))
    unsir.repair(Corner(), retained, settings, generator(0))
    assert calls == [(settings, {"rate": 0.5}), (settings, {"rate": 0.25, "epochs": 3})]


def test_only_retained_labels_repair(task):
    retained = unsir.retain_set(task)
    counts = torch.bincount(retained.labels, minlength=10)
    assert counts[[0, 4]].tolist() == [0, 0]
    assert counts[list(task.retained)].tolist() == [UNSIR.retain_a_class] * 8
    pixels = {image.numpy().tobytes() for image in retained.pixels}
    removed = torch.isin(task.train_images.labels, torch.tensor(task.removed))
    assert not pixels & {image.numpy().tobytes() for image in task.train_images.pixels[removed]}


@pytest.mark.parametrize(
    ("settings", "copies"),
    [
        ({"noise_share": None, "noise_copies": 3}, [3] * 6),
        ({"noise_share": 0.2}, [1, 1, 0, 1, 1, 0]),
        ({"noise_share": 0.5}, [3, 3, 2, 3, 3, 2]),
        ({"noise_share": 0.9}, [24] * 6),
    ],
)
def test_impairing_uses_copies_of_noise_with_its_label_and_all_retained_images(
    task, monkeypatch, settings, copies
):
    retained = task.train_images.sample_per_label(task.retained, 2, seed=0)
    noise = torch.arange(6.0)[:, None, None, None].expand(6, 3, 8, 8) + 100
    noise_labels = torch.tensor([0, 0, 0, 4, 4, 4])
    seen = note_losses(monkeypatch)
    settings = replace(UNSIR, batch=7, **settings)
    unsir.impair(Corner(), noise, noise_labels, retained, settings, generator(0))
    first, labels = seen()
    is_noise = first >= 100
    which = (first[is_noise] - 100).long()
    assert torch.bincount(which, minlength=6).tolist() == copies
    assert torch.equal(labels[is_noise], noise_labels[which])
    assert sorted(labels[~is_noise].tolist()) == sorted(retained.labels.tolist())


def test_repairing_uses_retained_images_alone(task, monkeypatch):
    retained = unsir.retain_set(task)
    seen = note_losses(monkeypatch)
    unsir.repair(Corner(), retained, UNSIR, generator(0))
    _, labels = seen()
    assert sorted(labels.tolist()) == sorted(retained.labels.tolist())


class Corner(torch.nn.Module):
    """A network that gives its images' first value, and learns nothing."""

    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(()))

    def forward(self, images):
        return images[:, 0, 0, 0] * self.factor


def note_losses(monkeypatch):
    batches = []

    def note(outputs, labels):
        batches.append((outputs.detach(), labels))
        return outputs.sum() * 0.0

    monkeypatch.setattr(unsir.F, "cross_entropy", note)
    return lambda: tuple(torch.cat(parts) for parts in zip(*batches, strict=True))


@pytest.mark.parametrize("method", ["unsir", "nhle_cwm"])
def test_a_changed_network_forgets_and_keeps(method, task, outcomes, is_removed):
    logits = outcomes[method].logits[method]
    assert accuracy(task.base.test_logits, task, is_removed) > 0.9
    assert accuracy(logits, task, is_removed) < 0.05
    assert accuracy(logits, task, ~is_removed) > 0.9


def test_finetuning_lowers_the_probability_of_forgotten_labels(task):
    model = copy.deepcopy(task.base.model)
    statistics = [statistic.clone() for statistic in model.buffers()]
    images = task.train_images.sample_per_label(task.removed, 50, seed=0)

    def loss():
        with torch.no_grad():
            return functional.cross_entropy(model(as_input(images.pixels)), images.labels).item()

    before = loss()
    nhle_cwm.finetune(model, images, 20, NHLE, generator(0))
    assert loss() > 5 * before
    assert all(torch.equal(*pair) for pair in zip(model.buffers(), statistics, strict=True))


def test_finetuning_ends_where_nothing_is_left_to_forget(task):
    model = copy.deepcopy(task.base.model)
    with torch.no_grad():
        head(model).bias[list(task.removed)] -= 100
    before = [weight.clone() for weight in model.parameters()]
    images = task.train_images.sample_per_label(task.removed, 50, seed=0)
    nhle_cwm.finetune(model, images, 2, NHLE, generator(0))
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), before, strict=True))


def test_masked_rows_are_zero(task, outcomes):
    model = copy.deepcopy(task.base.model)
    nhle_cwm.mask_head(model, task.removed)
    weight, was = head(model).weight, head(task.base.model).weight
    assert not weight[[0, 4]].any()
    assert not head(model).bias[[0, 4]].any()
    assert torch.equal(weight[list(task.retained)], was[list(task.retained)])
    assert not outcomes["nhle_cwm"].logits["nhle_cwm"][:, [0, 4]].any()


@pytest.mark.parametrize(("n", "epochs"), [(1, 10), (20, 10), (21, 3)])
def test_forgotten_images_are_unlearnt_in_fewer_epochs_where_many_labels_go(
    task, monkeypatch, n, epochs
):
    calls = []

    def finetune(model, images, epochs, settings, random):
        calls.append((images.labels, epochs, settings))

    monkeypatch.setattr(nhle_cwm, "finetune", finetune)
    monkeypatch.setattr(nhle_cwm, "mask_head", lambda model, removed: calls.append(removed))
    removed = tuple(range(n))  # of the digits only ten have images
    outcome = nhle_cwm.run(replace(task, removed=removed))
    (labels, epochs_run, settings), masked = calls
    counts = [min(n, NHLE.images_a_class) for n in torch.bincount(task.train_images.labels)]
    assert torch.bincount(labels).tolist() == counts[:n]
    assert (epochs_run, settings, masked) == (epochs, NHLE, removed)
    assert outcome.config["epochs_run"] == epochs


@pytest.mark.parametrize("variant", ["naive", "normalization"])
def test_two_variants_are_mask(task, outcomes, variant):
    confidences = outcomes["linear_filtration"].confidences[f"linear_filtration_{variant}"]
    mask = outcomes["mask"].confidences["mask"]
    np.testing.assert_allclose(confidences, mask, atol=1e-6)


@pytest.mark.parametrize("variant", linear_filtration.VARIANTS)
def test_mean_logits_become_what_the_variant_says(task, variant):
    labels = task.base.train_labels
    means = linear_filtration.mean_logits(task.base.train_logits, labels, 10)
    np.testing.assert_allclose(
        means[:, 4], task.base.train_logits[labels == 4].mean(axis=0), rtol=1e-4
    )
    retained, removed = list(task.retained), list(task.removed)
    result = linear_filtration.fit(means, task.removed, variant, seed=3) @ means
    np.testing.assert_allclose(result[:, retained], means[np.ix_(retained, retained)], atol=1e-8)
    gone = result[:, removed]
    if variant == "naive":
        expected = means[np.ix_(retained, removed)]
    elif variant == "zeroing":
        expected = np.zeros((8, 2))
    elif variant == "randomization":
        expected = np.random.default_rng(3).standard_normal((8, 2))
    else:
        expected = means[np.ix_(retained, removed)]
        expected = expected - expected.mean(axis=0) + means[np.ix_(retained, retained)].mean()
    np.testing.assert_allclose(gone, expected, atol=1e-8)


def test_filters_are_fitted_on_training_images_with_the_seed(task):
    found = linear_filtration.run(replace(task, seed=3)).matrices
    labels = task.base.train_labels
    means = linear_filtration.mean_logits(task.base.train_logits, labels, 10)
    for variant in linear_filtration.VARIANTS:
        expected = linear_filtration.fit(means, task.removed, variant, seed=3)
        np.testing.assert_array_equal(
            found[f"linear_filtration_{variant}"], expected.astype(np.float32)
        )


def test_a_singular_matrix_is_solved_in_the_least_squares_sense():
    means = np.random.default_rng(0).standard_normal((6, 6))
    means -= means.mean(axis=0)  # logits whose rows sum to 0
    assert np.linalg.cond(means) > 1e12
    for variant in linear_filtration.VARIANTS:
        assert np.abs(linear_filtration.fit(means, (1,), variant, seed=0)).max() < 100
    naive, normalised = (
        softmax(means.T @ linear_filtration.fit(means, (1,), variant, seed=0).T, axis=1)
        for variant in ("naive", "normalization")
    )
    np.testing.assert_allclose(naive, normalised, atol=1e-6)


def test_the_filtered_head_gives_the_filtered_logits(task, outcomes):
    outcome = outcomes["linear_filtration"]
    matrix = torch.tensor(outcome.matrices["linear_filtration_zeroing"])
    model = copy.deepcopy(task.base.model)
    layer = head(model)
    layer.weight.data, layer.bias.data = matrix @ layer.weight.data, matrix @ layer.bias.data
    own = softmax(logits_of(model, task.test_images), axis=1)
    expected = outcome.confidences["linear_filtration_zeroing"]
    np.testing.assert_allclose(own, expected, atol=1e-3)
    assert outcome.condition > 1
    assert outcome.config["solved_by"] == "elimination"
