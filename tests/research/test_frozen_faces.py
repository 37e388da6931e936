"""Heads on frozen features: made-up images and a small network, and the committed cells."""

import numpy as np
import onnxruntime
import pytest
from onnx import save
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

torch = pytest.importorskip("torch")

from onnx_models import parsed  # noqa: E402
from research import frozen_faces  # noqa: E402
from research.datasets import ImageSet  # noqa: E402
from research.results.files import read_result, stored_cells  # noqa: E402
from research.tables.aggregate import judge_cell  # noqa: E402

# The mean of each colour, in four quarters of the image.
NETWORK = """net (float[N,3,112,112] images) => (float[N,12] features) {
    quarters = AveragePool<kernel_shape=[56,56], strides=[56,56]>(images)
    features = Flatten(quarters)
}"""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "quarters.onnx"
    save(parsed(NETWORK), path)
    return path


@pytest.fixture(scope="module")
def images():
    """Make noisy images of ten labels, each with four colours of its own."""
    rng = np.random.default_rng(3)
    colours = rng.integers(40, 216, size=(10, 3, 2, 2)).repeat(4, axis=2).repeat(4, axis=3)
    labels = np.repeat(np.arange(10), 24)
    noisy = np.clip(colours[labels] + rng.normal(0, 250, (240, 3, 8, 8)), 0, 255).astype(np.uint8)
    halves = [torch.from_numpy(array[start::2]) for start in (0, 1) for array in (noisy, labels)]
    return ImageSet(*halves)


@pytest.fixture(scope="module")
def results(images, network, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    frozen_faces.run("digits", images, network, out)
    return out


def test_inputs_reach_from_minus_one_to_one_with_red_first(network):
    pixels = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    pixels[1, 0] = 255
    features = frozen_faces.embed(onnxruntime.InferenceSession(network), pixels) * 12**0.5
    np.testing.assert_allclose(features, [[-1] * 12, [1] * 4 + [-1] * 8], rtol=1e-6)


def test_a_retrained_head_is_one_of_the_rows_of_retained_labels_alone(images, network, results):
    cell = next(c for c in stored_cells(results) if c.forget == "F2")
    result = read_result(results, cell)
    session = onnxruntime.InferenceSession(network)
    train, test = (
        frozen_faces.embed(session, pixels).double().numpy()
        for pixels in (images.train_images, images.test_images)
    )
    kept = ~np.isin(images.train_labels, cell.removed)
    strength = result.facts["config"]["training"]["C"]
    head = LogisticRegression(C=strength, tol=1e-8, max_iter=5000)
    head.fit(train[kept], images.train_labels.numpy()[kept])
    judged = [np.flatnonzero(images.test_labels == label)[:10] for label in range(10)]
    expected = head.decision_function(test[np.concatenate(judged)])
    np.testing.assert_allclose(result.arrays["retrain"], expected, atol=1 / 64)
    assert result.facts["config"]["retrain"]["images"] == kept.sum()


def test_the_strength_is_the_best_on_held_out_training_images(images, network, results):
    session, truth = onnxruntime.InferenceSession(network), images.train_labels.numpy()
    rows = frozen_faces.embed(session, images.train_images).double().numpy()
    expected = {}
    for strength in (100, 300, 1000, 3000):
        losses = []
        for fitted, held_out in StratifiedKFold(3).split(rows, truth):
            head = LogisticRegression(C=strength, tol=1e-8, max_iter=5000)
            likely = head.fit(rows[fitted], truth[fitted]).predict_proba(rows[held_out])
            own = likely[np.arange(len(held_out)), truth[held_out]]
            losses.append(-np.log(own.clip(np.finfo(float).eps)).mean())
        expected[str(strength)] = np.mean(losses)
    training = read_result(results, stored_cells(results)[0]).facts["config"]["training"]
    assert training["log_loss"] == pytest.approx(expected, rel=1e-6)
    assert training["C"] == float(min(expected, key=expected.get))


def test_cells_are_judged_as_those_of_other_networks(results):
    cells = stored_cells(results)
    assert [cell.forget for cell in cells] == ["F0", "F1", "F2", "F3", "F4"]
    values = judge_cell(results, cells[2], cells).values
    found = {(key.method, key.metric): value for key, value in values.items()}
    assert found["osr", "A_R"] == pytest.approx(found["mask", "A_R"], abs=0.02)
    assert 0.4 < found["base", "A_R"] < found["osr", "A_R"] < 1
    assert found["retrain", "A_F"] == 0
