from dataclasses import replace

import numpy as np
import pytest
import torch

from research.augmentation import (
    as_input,
    augmented,
    jittered,
    mixing,
    resized_crops,
    training_inputs,
)
from research.settings import Recipe, Strong
from research.training import generator

STILL = Recipe(epochs=1, batch=4, rate=0.1, padding=0, flip=False)


def pictures(n=4, side=8):
    return torch.randint(0, 256, (n, side, side, 3), generator=generator(0), dtype=torch.uint8)


def numbered(side=8):
    """One image whose pixel values are their positions."""
    at = torch.arange(side * side, dtype=torch.uint8).view(1, side, side, 1)
    return at.expand(1, side, side, 3)


def test_inputs_are_normalised_and_channels_last():
    pixels = pictures()
    inputs = as_input(pixels)
    assert inputs.shape == (4, 3, 8, 8)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    expected = (pixels[0, 0, 0].float() / 255 - torch.tensor([0.485, 0.456, 0.406])) / (
        torch.tensor([0.229, 0.224, 0.225])
    )
    torch.testing.assert_close(inputs[0, :, 0, 0], expected)


def test_crops_are_those_of_a_mirrored_image():
    pixels, rows = numbered(), torch.zeros(200, dtype=torch.int64)
    crops = augmented(pixels, rows, replace(STILL, padding=3), generator(0))[..., 0]
    padded = np.pad(pixels[0, ..., 0].numpy(), 3, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 8)).reshape(-1, 64)
    allowed = {window.tobytes() for window in windows}
    seen = {crop.tobytes() for crop in crops.reshape(200, -1).numpy()}
    assert seen <= allowed
    assert len(seen) > 40  # of 49


def test_about_half_of_the_images_are_mirrored():
    pixels = numbered()
    rows = torch.zeros(400, dtype=torch.int64)
    crops = augmented(pixels, rows, replace(STILL, flip=True), generator(0))
    mirrored = (crops == pixels.flip(2)).flatten(1).all(dim=1)
    straight = (crops == pixels).flatten(1).all(dim=1)
    assert (mirrored ^ straight).all()
    assert 150 < mirrored.sum() < 250


def test_resized_crops_keep_half_the_area_and_about_half_of_them_are_mirrored():
    n, side, larger = 400, 16, 32
    ramp = torch.arange(side, dtype=torch.float32)
    across, down = ramp.expand(side, side), ramp[:, None].expand(side, side)
    inputs = torch.stack([across, down, across]).expand(n, 3, side, side)
    crops = resized_crops(inputs, larger, 0.5, True, generator(0))
    assert crops.shape == (n, 3, larger, larger)
    assert crops.min() >= 0
    assert crops.max() <= side - 1
    middle = larger // 2
    # A step of one pixel in the crop, as a share of the width or height that it would have whole.
    width = (crops[:, 0, 0, middle + 1] - crops[:, 0, 0, middle]) * larger / side
    height = (crops[:, 1, middle + 1, 0] - crops[:, 1, middle, 0]) * larger / side
    assert 150 < (width < 0).sum() < 250
    area = width.abs() * height
    assert 0.5 <= area.min() < 0.55
    assert 0.95 < area.max() < 1 + 1e-5
    ratio = width.abs() / height
    assert 3 / 4 - 1e-4 < ratio.min() < 0.8
    assert 1.25 < ratio.max() < 4 / 3 + 1e-4
    straight = resized_crops(inputs, larger, 0.5, False, generator(0))
    assert (straight[:, 0, 0, -1] > straight[:, 0, 0, 0]).all()


def test_colours_change_in_brightness_then_contrast_then_saturation():
    pixels = pictures().double()
    found = jittered(pixels.float(), 0.4, generator(5)).numpy()
    draws = torch.rand(3, 4, 1, 1, 1, generator=generator(5)).flatten(1).tolist()
    for image, result, *factors in zip(pixels.numpy(), found, *draws, strict=True):
        brightness, contrast, saturation = (1 + 0.4 * (2 * draw - 1) for draw in factors)
        bright = [[[value * brightness for value in pixel] for pixel in row] for row in image]
        mean = np.mean(bright)
        for row, rows_found in zip(bright, result, strict=True):
            for pixel, pixel_found in zip(row, rows_found, strict=True):
                plain = [mean + contrast * (value - mean) for value in pixel]
                grey = 0.299 * plain[0] + 0.587 * plain[1] + 0.114 * plain[2]
                expected = [grey + saturation * (value - grey) for value in plain]
                assert pixel_found == pytest.approx(np.clip(expected, 0, 255), abs=1e-3)


def test_labels_are_mixed_as_the_images_are():
    """Images as bright as their label: the label to expect can be read off the pixels."""
    torch.manual_seed(0)
    labels = torch.arange(5)
    images = labels.float().view(5, 1, 1, 1).expand(5, 3, 16, 16)
    mix = mixing(Strong(), 5)
    ways = set()
    for _ in range(30):
        mixed, shares = mix(images, labels)
        torch.testing.assert_close(shares.sum(dim=1), torch.ones(5))
        assert not shares.argmax(dim=1).equal(labels) or (shares > 0).sum() >= 5
        torch.testing.assert_close(mixed.mean(dim=(1, 2, 3)), shares @ labels.float())
        values = [len(image.unique()) for image in mixed]
        ways.add("cutmix" if max(values) > 1 else "mixup")
    assert ways == {"cutmix", "mixup"}


def test_strong_augmentation_has_the_networks_side():
    recipe = replace(STILL, strong=Strong(), side=24)
    inputs = training_inputs(pictures(), torch.tensor([0, 1]), recipe, generator(0))
    assert inputs.shape == (2, 3, 24, 24)
    assert not torch.equal(inputs[0], inputs[1])
