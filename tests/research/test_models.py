"""The networks have the shapes that the sets need, and end in their heads."""

from __future__ import annotations

import copy
import hashlib
import io

import pytest

import doors

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision_cpu")
models = pytest.importorskip("research.models")

from unlabel import UnlabelError  # noqa: E402

SIDES = [("vit_b_16", 128)]  # it takes no other
SIDES += [(name, side) for name in ("resnet18", "allcnn", "mobilenet_v2") for side in (32, 48)]
SIDES += [("small", 8), ("small", 48)]


@pytest.mark.parametrize(("architecture", "side"), SIDES)
def test_a_network_gives_one_logit_per_label_and_ends_in_its_head(architecture, side):
    model = doors.build_network(architecture, 7).eval()
    images = torch.rand(2, 3, side, side)
    head = models.head(model)
    seen = []
    head.register_forward_hook(lambda layer, inputs, output: seen.append((inputs[0], output)))
    with torch.no_grad():
        logits = model(images)
    assert logits.shape == (2, 7)
    ((features, output),) = seen
    torch.testing.assert_close(output, logits, rtol=0, atol=0)
    torch.testing.assert_close(features @ head.weight.T + head.bias, logits)


def test_resnet18_sees_small_images_at_full_size():
    model = doors.build_network("resnet18", 10)
    sizes = {}
    model.layer1.register_forward_hook(lambda _, __, output: sizes.update(layer1=output.shape))
    model(torch.rand(2, 3, 32, 32))
    assert sizes["layer1"] == (2, 64, 32, 32)
    assert sum(p.numel() for p in model.parameters()) == 11_173_962  # as published for CIFAR-10


def test_allcnn_equals_a_last_convolution_that_is_averaged():
    model = doors.build_network("allcnn", 10).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        maps = model.features(images)
        last = torch.nn.functional.conv2d(
            maps, model.head.weight[:, :, None, None], model.head.bias
        )
        torch.testing.assert_close(model(images), last.mean(dim=(2, 3)))
    assert maps.shape == (2, 192, 8, 8)


def test_an_unknown_architecture_is_named():
    with pytest.raises(UnlabelError, match="no model 'vgg'"):
        doors.build_network("vgg", 10)


def test_pretrained_weights_come_in_below_a_fresh_head(tmp_path, monkeypatch):
    source = doors.build_network("mobilenet_v2", 1000)
    buffer = io.BytesIO()
    torch.save(source.state_dict(), buffer)
    file = tmp_path / "mobilenet.pth"
    file.write_bytes(buffer.getvalue())
    monkeypatch.setattr(models, "MOBILENET_SHA256", hashlib.sha256(buffer.getvalue()).hexdigest())
    model = doors.build_network("mobilenet_v2", 5, file)
    assert models.head(model).weight.shape == (5, 1280)
    for name, weight in source.features.state_dict().items():
        torch.testing.assert_close(model.features.state_dict()[name], weight, rtol=0, atol=0)


def test_a_file_with_another_checksum_is_never_unpickled(tmp_path, monkeypatch):
    file = tmp_path / "mobilenet_v2-b0353104.pth"
    torch.save(doors.build_network("mobilenet_v2", 1000).state_dict(), file)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("the file was unpickled"))
    with pytest.raises(UnlabelError, match=r"mobilenet_v2-b0353104\.pth is not torchvision's file"):
        doors.build_network("mobilenet_v2", 5, file)


def test_missing_weights_and_weights_for_others_are_explained(tmp_path):
    with pytest.raises(UnlabelError, match=r"gone\.pth could not be read .* download https"):
        doors.build_network("mobilenet_v2", 5, tmp_path / "gone.pth")
    with pytest.raises(UnlabelError, match="no ImageNet weights for resnet18"):
        doors.build_network("resnet18", 5, tmp_path / "gone.pth")


def test_weights_of_another_number_of_labels_come_in_below_the_head():
    source, model = doors.build_network("allcnn", 10), doors.build_network("allcnn", 4)
    own = {name: weight.clone() for name, weight in models.head(model).state_dict().items()}
    models.load_below_head(model, source.state_dict())
    for name, weight in models.head(model).state_dict().items():
        assert torch.equal(weight, own[name])
    for name, weight in source.features.state_dict().items():
        assert torch.equal(model.features.state_dict()[name], weight)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # PyTorch's own import
def test_only_a_transformers_blocks_are_compiled_and_copies_are_not():
    model = doors.build_network("vit_b_16", 3)
    models.compile_blocks(model)
    compiled = [name for name, layer in model.named_modules() if layer._compiled_call_impl]
    assert compiled == [f"encoder.layers.encoder_layer_{number}" for number in range(12)]
    assert not any(layer._compiled_call_impl for layer in copy.deepcopy(model).modules())
    other = doors.build_network("small", 3)
    models.compile_blocks(other)
    assert not any(layer._compiled_call_impl for layer in other.modules())
