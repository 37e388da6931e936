# ruff: noqa: E402  (optional libraries are looked for first)
import copy
import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision_cpu")  # before transformers, which imports torchvision
pytest.importorskip("transformers")
os.environ["HF_HUB_OFFLINE"] = "1"  # before it as well: nothing may be downloaded

from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertTokenizer,
    DeiTConfig,
    DeiTForImageClassificationWithTeacher,
    DeiTModel,
    ElectraConfig,
    ElectraForPreTraining,
    ResNetConfig,
    ResNetForImageClassification,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    Wav2Vec2Config,
    Wav2Vec2ForAudioFrameClassification,
    pipeline,
)
from transformers.modeling_outputs import SequenceClassifierOutput

import unlabel.torch
from golden_integrations import CLASSES, KINDS, METHODS, golden_case, golden_filter
from unlabel import LabelPlan, OutputFilter, UnlabelError
from unlabel.huggingface import FILTER_FILE, attach

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "fox", "ran"]
WORDS += ["sat", "on", "under", "mat", "hill", "far"]
TEXTS = ["the cat sat on the mat", "a dog ran far", "fox", "under a hill the fox ran", "a cat"]
LABELS = {
    "id2label": dict(enumerate(CLASSES)),
    "label2id": {name: number for number, name in enumerate(CLASSES)},
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    vocabulary = tmp_path_factory.mktemp("tokenizer") / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS))
    return BertTokenizer(str(vocabulary))


@pytest.fixture
def bert():
    return tiny_bert()


def tiny_bert(kind=BertForSequenceClassification, **options):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=1.0,
        **{**LABELS, **options},
    )
    return kind(config).eval()


def logits_of(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_pipeline_gives_the_numbers_of_numpy(bert, tokenizer, method, kind):
    logits = logits_of(bert, tokenizer(TEXTS, padding=True, return_tensors="pt")).numpy()
    expected = golden_filter(method, "logits").apply(logits)
    filtered = attach(bert, golden_filter(method, kind), "logits")
    classify = pipeline(
        "text-classification", filtered, tokenizer=tokenizer, top_k=None, device="cpu"
    )
    answers = classify(TEXTS)
    remaining = list(filtered.config.label2id)
    assert len(remaining) == 7
    for row, answer in zip(expected, answers, strict=True):
        scores = {entry["label"]: entry["score"] for entry in answer}
        np.testing.assert_allclose([scores[name] for name in remaining], row, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_logits_reproduce_the_golden_file(method):
    class Stored(BertForSequenceClassification):
        def forward(self, rows):
            return SequenceClassifierOutput(logits=rows)

    model = Stored(tiny_bert().config).eval()
    rows, expected = golden_case(method, "logits", "float64")
    filtered = attach(model, golden_filter(method, "logits"))
    result = filtered(torch.tensor(rows)).logits.softmax(-1)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


def test_the_model_itself_is_left_as_it_is(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    logits, config = logits_of(bert, inputs), copy.deepcopy(bert.config)
    names = set(bert.state_dict())
    filtered = attach(bert, golden_filter("osr", "logits"))
    logits_of(filtered, inputs)
    assert torch.equal(logits_of(bert, inputs), logits)
    assert bert.config.to_dict() == config.to_dict()
    assert bert.num_labels == 10
    assert set(bert.state_dict()) == names
    assert filtered.classifier is bert.classifier


def test_the_model_keeps_its_class_signature_and_outputs(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    filtered = attach(bert, golden_filter("osr", "logits"))
    assert isinstance(filtered, BertForSequenceClassification)
    assert filtered.num_labels == filtered.config.num_labels == 7
    signature = inspect.signature(filtered.forward)
    others = [each for each in signature.parameters.values() if each.name != "allow"]
    assert signature.replace(parameters=others) == inspect.signature(bert.forward)
    with torch.no_grad():
        output = filtered(**inputs, output_hidden_states=True)
        original = bert(**inputs, output_hidden_states=True)
        (logs,) = filtered(**inputs, return_dict=False)
    assert type(output) is type(original)
    assert output.loss is None
    assert all(map(torch.equal, output.hidden_states, original.hidden_states))
    assert torch.equal(logs, output.logits)


def test_the_loss_is_that_of_the_labels_that_stay(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    filtered = attach(bert, golden_filter("osr", "logits"))
    labels = torch.tensor([0, 6, 3, 3, -100])  # -100: left out, as everywhere in transformers
    output = filtered(**inputs, labels=labels)
    expected = -output.logits[torch.arange(4), labels[:4]].mean()
    assert torch.isclose(output.loss, expected)
    output.loss.backward()
    assert bert.classifier.weight.grad.abs().sum() > 0
    assert torch.equal(filtered(**inputs, labels=labels, return_dict=False)[0], output.loss)
    assert torch.equal(filtered(**inputs, labels=labels[:, None]).loss, output.loss)


def test_labels_may_be_one_hot_as_models_of_audio_frames_take_them():
    config = Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(16,),
        conv_stride=(10,),
        conv_kernel=(10,),
        num_conv_pos_embedding_groups=2,
        num_conv_pos_embeddings=4,
        num_labels=10,
    )
    frames = Wav2Vec2ForAudioFrameClassification(config).eval()
    filtered = attach(
        frames, OutputFilter.from_plan(LabelPlan([0, 4, 9]), classes=range(10), kind="logits")
    )
    sound = torch.randn(2, 80, generator=torch.Generator().manual_seed(0))
    n_frames = filtered(sound).logits.shape[1]
    truth = torch.arange(2 * n_frames).reshape(2, n_frames) % 7
    output = filtered(sound, labels=torch.nn.functional.one_hot(truth, 7))
    expected = -output.logits.gather(-1, truth[..., None]).mean()
    torch.testing.assert_close(output.loss, expected)


def test_the_losses_of_a_batchs_parts_add_up_to_the_batchs(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    filtered = attach(bert, golden_filter("osr", "logits"))
    labels = torch.tensor([0, 6, 3, 3, 1])
    whole = filtered(**inputs, labels=labels).loss
    parts = [
        filtered(
            **{name: tensor[rows] for name, tensor in inputs.items()},
            labels=labels[rows],
            num_items_in_batch=torch.tensor(5),
        ).loss
        for rows in (slice(0, 2), slice(2, 5))
    ]
    assert torch.isclose(sum(parts), whole)


def test_labels_given_by_position_are_numbered_as_the_ones_that_stay(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    filtered = attach(bert, golden_filter("osr", "logits"))
    labels = torch.tensor([0, 6, 3, 3, 1])
    expected = filtered(**inputs, labels=labels)
    names = list(inspect.signature(bert.forward).parameters)
    given = [inputs.get(name) for name in names[: names.index("labels")]]
    output = filtered(*given, labels)
    assert torch.equal(output.loss, expected.loss)
    assert torch.equal(output.logits, expected.logits)
    assert torch.equal(filtered(*given, labels, return_dict=False)[0], expected.loss)
    assert filtered(*given).loss is None
    with pytest.raises(TypeError, match="labels"):
        filtered(*given, labels, labels=labels)


def test_sequences_may_be_as_long_as_there_are_labels():
    fitted, model = golden_filter("osr", "logits"), tiny_bert(BertForTokenClassification)
    inputs = {"input_ids": torch.arange(20).reshape(2, 10) % len(WORDS)}
    logits = logits_of(model, inputs)
    assert logits.shape == (2, 10, 10)
    filtered = attach(model, fitted)
    expected = fitted.apply(logits.reshape(20, 10).numpy()).reshape(2, 10, 7)
    np.testing.assert_allclose(logits_of(filtered, inputs).softmax(-1), expected, atol=1e-6)
    labels = torch.arange(20).reshape(2, 10) % 7
    loss = filtered(**inputs, labels=labels).loss
    exact = -np.log(np.take_along_axis(expected, labels.numpy()[..., None], -1)).mean()
    assert loss.item() == pytest.approx(exact, rel=1e-4)


@pytest.fixture
def segformer():
    torch.manual_seed(0)
    config = SegformerConfig(
        depths=[1, 1], hidden_sizes=[4, 8], num_encoder_blocks=2, decoder_hidden_size=8, **LABELS
    )
    return SegformerForSemanticSegmentation(config).eval()


def test_a_segmentation_needs_dim(segformer):
    fitted = golden_filter("osr", "logits")
    images = {"pixel_values": torch.rand(1, 3, 40, 40)}
    logits = logits_of(segformer, images)
    assert logits.shape == (1, 10, 10, 10)
    with pytest.raises(UnlabelError, match=r"the shape \(1, 10, 10, 10\): name the .* 1 for"):
        attach(segformer, fitted)(**images)
    filtered = attach(segformer, fitted, dim=1)
    expected = fitted.apply(logits.movedim(1, -1).reshape(100, 10).numpy())
    result = logits_of(filtered, images).softmax(1)
    assert result.shape == (1, 7, 10, 10)
    np.testing.assert_allclose(result.movedim(1, -1).reshape(100, 7), expected, atol=1e-6)
    with pytest.raises(UnlabelError, match="The loss of a segmentation is not computed"):
        filtered(**images, labels=torch.zeros(1, 40, 40, dtype=torch.int64))


def test_a_filter_of_probabilities_must_be_told_of_logits(bert):
    for fitted, kind in (
        (golden_filter("osr", "probabilities"), None),
        (golden_filter("osr", "logits"), "probabilities"),
    ):
        with pytest.raises(UnlabelError, match=r"takes probabilities: .* \(kind=\)"):
            attach(bert, fitted, kind)
    with pytest.raises(UnlabelError, match="'scores' is not known"):
        attach(bert, golden_filter("osr", "logits"), "scores")


def test_a_config_that_contradicts_itself_is_refused(bert):
    fitted = golden_filter("mask", "logits")
    numbered = OutputFilter.from_plan({2: None}, classes=range(10), kind="logits")
    names = LABELS["id2label"]
    bert.config.label2id = LABELS["label2id"] | {"cat": 5, "dog": 3}
    with pytest.raises(UnlabelError, match=r"Label 3 is 'cat' in .*, but 'cat' is label 5 in its"):
        attach(bert, fitted)
    bert.config.label2id = {f"LABEL_{number}": number for number in range(10)}  # names no label
    assert attach(bert, fitted).config.num_labels == 7
    bert.config.id2label = {number + 1: name for number, name in names.items()}
    with pytest.raises(UnlabelError, match=r"keys of .*id2label are 1, 2, .* them from 0 to n-1"):
        attach(bert, fitted)
    bert.config.id2label = names | {4: "cat"}
    with pytest.raises(UnlabelError, match=r"config\.id2label: the label 'cat' appears twice"):
        attach(bert, numbered)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_filtered_model_can_be_compiled_and_exported(bert, tokenizer):
    inputs = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    filtered = attach(bert, golden_filter("osr", "logits"))
    expected = logits_of(filtered, inputs)
    assert torch.equal(logits_of(torch.compile(filtered, backend="eager"), inputs), expected)
    batch = {0: torch.export.Dim.AUTO}
    exported = torch.export.export(
        filtered, (), inputs, dynamic_shapes=dict.fromkeys(inputs, batch)
    ).module()
    fewer = {name: tensor[:3] for name, tensor in inputs.items()}
    assert torch.allclose(exported(**fewer).logits, expected[:3], atol=1e-5)


def test_a_hook_on_one_model_is_not_on_the_other(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    called = []
    bert.register_forward_hook(lambda *_: called.append("before"))
    filtered = attach(bert, golden_filter("osr", "logits"))
    filtered.register_forward_hook(lambda *_: called.append("filtered"))
    logits_of(bert, inputs)
    assert called == ["before"]
    logits_of(filtered, inputs)
    assert called == ["before", "before", "filtered"]


def test_half_precision_and_copies_work(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    fitted = golden_filter("osr", "logits")
    filtered = attach(bert, fitted)
    before = logits_of(filtered, inputs)
    coarse = copy.deepcopy(filtered).bfloat16()
    result = logits_of(coarse, inputs)
    assert result.dtype == torch.bfloat16
    expected = fitted.apply(logits_of(copy.deepcopy(bert).bfloat16(), inputs).float().numpy())
    np.testing.assert_allclose(result.float().softmax(-1), expected, rtol=0, atol=4e-3)
    assert torch.equal(logits_of(filtered, inputs), before)


def test_a_filtered_model_can_be_pickled(bert, tokenizer):
    filtered = attach(bert, golden_filter("osr", "logits"))
    again = pickle.loads(pickle.dumps(filtered))
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert torch.equal(logits_of(again, inputs), logits_of(filtered, inputs))
    assert type(again) is type(filtered)
    assert again.config.id2label == filtered.config.id2label
    assert len(pickle.dumps(filtered)) < 1.5 * len(pickle.dumps(bert))  # one model, not two


def test_saving_writes_the_whole_model_and_the_filter_beside_it(bert, tokenizer, tmp_path):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    filtered = attach(bert, golden_filter("calibrated", "probabilities"), "logits")
    filtered.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert loaded.config.num_labels == 10
    again = attach(loaded, OutputFilter.load(tmp_path / FILTER_FILE))
    assert again.config.id2label == filtered.config.id2label
    assert torch.equal(logits_of(again, inputs), logits_of(filtered, inputs))


def test_saving_writes_the_model_that_is_held(bert, tmp_path):
    filtered = attach(bert, golden_filter("mask", "logits"))
    filtered.classifier = torch.nn.Linear(16, 10)
    filtered.save_pretrained(tmp_path, True, filtered.state_dict())
    loaded, report = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert torch.equal(loaded.classifier.weight, filtered.classifier.weight)
    assert not report["unexpected_keys"]
    assert not report["missing_keys"]
    filtered.save_pretrained(tmp_path / "other", is_main_process=False)
    assert not (tmp_path / "other" / FILTER_FILE).exists()


def test_changes_of_the_filtered_model_are_saved_with_it(bert, tmp_path):
    filtered = attach(bert, golden_filter("mask", "logits"))
    filtered.resize_token_embeddings(25)
    filtered.save_pretrained(tmp_path, True, None, False)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert loaded.config.vocab_size == 25
    assert loaded.config.id2label == LABELS["id2label"]


@pytest.mark.parametrize("how", ["compile", "forward"])
def test_a_compiled_model_is_filtered_too(bert, tokenizer, how):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    fitted = golden_filter("osr", "logits")
    expected = logits_of(attach(bert, fitted), inputs)
    if how == "compile":
        bert.compile(backend="eager")
    else:
        bert.forward = torch.compile(bert.forward, backend="eager")
    assert torch.equal(logits_of(attach(bert, fitted), inputs), expected)


def test_outputs_without_a_loss_and_without_logits():
    options = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = DeiTConfig(image_size=8, patch_size=4, intermediate_size=16, **options, **LABELS)
    model = DeiTForImageClassificationWithTeacher(config).eval()
    fitted = golden_filter("osr", "logits")
    images = {"pixel_values": torch.rand(3, 3, 8, 8)}
    expected = fitted.apply(logits_of(model, images).numpy())
    result = logits_of(attach(model, fitted), images).softmax(-1)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)
    with pytest.raises(UnlabelError, match="The outputs of DeiTModel have no logits"):
        attach(DeiTModel(config), fitted)(**images)


@pytest.mark.parametrize(
    "kind", [BertForMultipleChoice, BertForQuestionAnswering, ElectraForPreTraining]
)
def test_logits_that_are_not_over_the_labels_are_refused(kind):
    # Over the choices and the words of a text, of which there may be as many as labels.
    class Mine(kind):
        pass

    config = ElectraConfig if kind is ElectraForPreTraining else BertConfig
    options = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = config(vocab_size=9, intermediate_size=16, **options, **LABELS)
    message = f"The logits of {kind.__name__} are not one per label: .*ForSequenceClassification"
    for model in (kind(config), Mine(config)):
        with pytest.raises(UnlabelError, match=message):
            attach(model, golden_filter("osr", "logits"))


def test_an_image_classifier_loses_labels():
    torch.manual_seed(0)
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], **LABELS)
    model = ResNetForImageClassification(config).eval()
    fitted = golden_filter("osr", "logits")
    images = {"pixel_values": torch.rand(3, 3, 32, 32)}
    expected = fitted.apply(logits_of(model, images).numpy())
    result = logits_of(attach(model, fitted), images).softmax(-1)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)


def test_a_filter_may_number_the_labels():
    fitted = OutputFilter.from_plan({2: None, 3: None}, classes=range(10), kind="logits")
    filtered = attach(tiny_bert(), fitted)
    assert filtered.config.id2label[2] == "deer"


# Removed, merged into a label of the model, renamed, sent to a new label, and split.
CHANGES = {
    "bird": None,
    "cat": "dog",
    "frog": "toad",
    "truck": "vehicle",
    "automobile": "vehicle",
    "ship": {"vehicle": 0.25, "boat": 0.75},
}


def changed(probabilities, names, changes):
    """Loop over the labels of one row: the removed ones are dropped, the others added up."""
    sums = {}
    for name, probability in zip(names, probabilities, strict=True):
        to = changes.get(name, name)
        for label, weight in (to if isinstance(to, dict) else {to: 1.0}).items():
            sums[label] = sums.get(label, 0.0) + weight * probability
    sums.pop(None, None)
    return {label: value / sum(sums.values()) for label, value in sums.items()}


def test_the_pixels_of_a_segmentation_have_the_labels_of_a_plan_and_of_their_image(segformer):
    images = {"pixel_values": torch.rand(2, 3, 40, 48)}
    rows = logits_of(segformer, images).double().softmax(1).movedim(1, -1).numpy()
    fitted = OutputFilter.from_plan(CHANGES, classes=CLASSES, kind="logits")
    filtered = attach(segformer, fitted, dim=1)
    names = [*filtered.config.label2id]
    allowed = [{"dog", "vehicle", "boat"}, {*names} - {"dog"}]
    allow = torch.tensor([[name in each for name in names] for each in allowed])
    with torch.no_grad():
        whole = filtered(**images).logits.softmax(1)
        parts = filtered(**images, allow=allow[:, :, None, None])
        (logs,) = filtered(**images, allow=allow[:, :, None, None], return_dict=False)
    assert torch.equal(parts.logits, logs)
    assert parts.logits.isfinite().all()
    assert whole.shape == (2, 7, 10, 12)
    for image, height, width in np.ndindex(2, 10, 12):
        sums = changed(rows[image, height, width], CLASSES, CHANGES)
        found = dict(zip(names, whole[image, :, height, width].tolist(), strict=True))
        assert found == pytest.approx(sums, abs=1e-6)
        total = sum(sums[name] for name in allowed[image])
        wanted = [sums[name] / total if name in allowed[image] else 0.0 for name in names]
        found = parts.logits[image, :, height, width].softmax(0).tolist()
        assert found == pytest.approx(wanted, abs=1e-6)


def test_each_text_has_only_the_labels_that_it_may_have(bert, tokenizer):
    inputs = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    fitted = golden_filter("osr", "logits")
    filtered = attach(bert, fitted)
    allow = torch.ones(5, 7, dtype=torch.bool)
    allow[0, 2], allow[1:3, :4] = False, False
    expected = fitted.apply(logits_of(bert, inputs).numpy(), allow=allow.numpy())
    labels = torch.tensor([0, 6, 4, 3, -100])
    output = filtered(**inputs, labels=labels, allow=allow)
    np.testing.assert_allclose(output.logits.detach().softmax(-1), expected, rtol=0, atol=1e-6)
    loss = -np.log(expected[np.arange(4), labels[:4].numpy()]).mean()
    assert output.loss.item() == pytest.approx(loss, rel=1e-4)
    output.loss.backward()
    assert bert.classifier.weight.grad.isfinite().all()
    batch = {0: torch.export.Dim.AUTO}
    given = {**inputs, "allow": allow}
    exported = torch.export.export(
        filtered, (), given, dynamic_shapes=dict.fromkeys(given, batch)
    ).module()
    fewer = {name: tensor[:3] for name, tensor in given.items()}
    torch.testing.assert_close(exported(**fewer).logits, output.logits[:3], rtol=1e-4, atol=1e-5)


def test_a_plain_filtered_model_keeps_the_output_of_transformers(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    fitted = golden_filter("osr", "logits")
    filtered = unlabel.torch.attach(bert, fitted, key="logits")
    with torch.no_grad():
        output, original = (each(**inputs, output_hidden_states=True) for each in (filtered, bert))
        with pytest.raises(
            UnlabelError, match=r"\(SequenceClassifierOutput\) has .*such as .logits."
        ):
            unlabel.torch.attach(bert, fitted)(**inputs)
    assert type(output) is type(original)
    assert output.hidden_states is not None
    assert all(map(torch.equal, output.hidden_states, original.hidden_states))
    expected = fitted.apply(original.logits.numpy())
    np.testing.assert_allclose(output.logits, expected, rtol=0, atol=1e-6)
    assert torch.equal(output["logits"], output.logits)


def test_a_pipeline_gives_the_labels_of_a_plan(bert, tokenizer):
    filtered = attach(bert, OutputFilter.from_plan(CHANGES, classes=CLASSES, kind="logits"))
    names = ["airplane", "vehicle", "dog", "deer", "toad", "horse", "boat"]
    assert filtered.config.id2label == dict(enumerate(names))
    assert filtered.config.label2id == {name: number for number, name in enumerate(names)}
    assert filtered.num_labels == filtered.config.num_labels == 7
    classify = pipeline(
        "text-classification", filtered, tokenizer=tokenizer, top_k=None, device="cpu"
    )
    rows = logits_of(bert, tokenizer(TEXTS, padding=True, return_tensors="pt")).double().softmax(-1)
    for row, answer in zip(rows.tolist(), classify(TEXTS), strict=True):
        scores = {entry["label"]: entry["score"] for entry in answer}
        assert scores == pytest.approx(changed(row, CLASSES, CHANGES), abs=1e-6)


def test_a_filter_that_numbers_the_labels_leaves_them_the_models_names(bert):
    changes = {0: None, 1: 9, 2: "fowl", 3: 7, 4: 100, 5: {6: 0.5, "fowl": 0.5}}
    fitted = OutputFilter.from_plan(changes, classes=range(10), kind="logits")
    filtered = attach(bert, fitted)
    assert [*filtered.config.label2id] == ["truck", "fowl", "horse", "100", "frog", "ship"]
    assert fitted.classes_out == (9, "fowl", 7, 100, 6, 8)
    twice = OutputFilter.from_plan({0: "dog"}, classes=range(10), kind="logits")
    with pytest.raises(UnlabelError, match=r"^Two labels of the result would be 'dog' in .*id2lab"):
        attach(bert, twice)
    # The name of a label that goes elsewhere is free.
    freed = OutputFilter.from_plan({0: "dog", 5: "hound"}, classes=range(10), kind="logits")
    assert attach(bert, freed).config.id2label[5] == "hound"


def test_the_loss_is_that_of_the_new_labels(bert, tokenizer):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    filtered = attach(bert, OutputFilter.from_plan(CHANGES, classes=CLASSES, kind="logits"))
    truth = ["boat", "vehicle", "dog", "toad", "deer"]
    labels = torch.tensor([filtered.config.label2id[name] for name in truth])
    output = filtered(**inputs, labels=labels)
    rows = logits_of(bert, inputs).double().softmax(-1).tolist()
    exact = [
        -np.log(changed(row, CLASSES, CHANGES)[name]) for row, name in zip(rows, truth, strict=True)
    ]
    assert output.loss.item() == pytest.approx(np.mean(exact), rel=1e-4)
    output.loss.backward()
    assert bert.classifier.weight.grad.abs().sum() > 0


def test_a_model_with_a_plan_is_saved_whole_and_filtered_again(bert, tokenizer, tmp_path):
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    filtered = attach(bert, OutputFilter.from_plan(CHANGES, classes=CLASSES, kind="logits"))
    filtered.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert loaded.config.id2label == LABELS["id2label"]
    again = attach(loaded, OutputFilter.load(tmp_path / FILTER_FILE))
    assert again.config.id2label == filtered.config.id2label
    assert torch.equal(logits_of(again, inputs), logits_of(filtered, inputs))


TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
NO_PLACES = {"B-LOC": "O", "I-LOC": "O"}


def test_places_are_no_longer_named_entities(tokenizer):
    config = {"id2label": dict(enumerate(TAGS)), "label2id": {t: n for n, t in enumerate(TAGS)}}
    model = tiny_bert(BertForTokenClassification, **config)
    inputs = tokenizer(TEXTS[:1], return_tensors="pt")
    rows = logits_of(model, inputs)[0].double().softmax(-1).tolist()
    expected = [changed(row, TAGS, NO_PLACES) for row in rows]
    filtered = attach(model, OutputFilter.from_plan(NO_PLACES, classes=TAGS, kind="logits"))
    assert filtered.config.id2label == {0: "O", 1: "B-PER", 2: "I-PER"}
    tag = pipeline(
        "token-classification", filtered, tokenizer=tokenizer, ignore_labels=[], device="cpu"
    )
    found = tag(TEXTS[0])
    assert len(found) == len(expected) - 2  # without the special words at both ends
    for entity, sums in zip(found, expected[1:-1], strict=True):
        best = max(sums, key=sums.get)
        assert (entity["entity"], entity["score"]) == (best, pytest.approx(sums[best], abs=1e-6))
    truth = torch.tensor([[-100, *(n % 3 for n in range(len(found))), -100]])
    exact = [-np.log([*sums.values()][n % 3]) for n, sums in enumerate(expected[1:-1])]
    assert filtered(**inputs, labels=truth).loss.item() == pytest.approx(np.mean(exact), rel=1e-4)


def test_models_and_filters_that_do_not_fit_are_refused_in_one_sentence(bert):
    fitted = golden_filter("mask", "logits")
    for kind in ("multi_label_classification", "regression"):
        with pytest.raises(
            UnlabelError, match=f"The model's problem_type is '{kind}': it must be single_label"
        ):
            attach(tiny_bert(problem_type=kind), fitted)
    other = dict(LABELS["id2label"]) | {4: "elk", 5: "wolf"}
    with pytest.raises(UnlabelError, match=r"^Label 4 is 'elk' in the model's .* and 'deer' in"):
        attach(tiny_bert(id2label=other), fitted)
    with pytest.raises(UnlabelError, match="The model has 3 labels and the filter is for 10"):
        attach(tiny_bert(id2label={0: "a", 1: "b", 2: "c"}), fitted)
    with pytest.raises(UnlabelError, match="The model is a str: give a PreTrainedModel"):
        attach("bert-base-uncased", fitted)
    with pytest.raises(UnlabelError, match="The filter is a str: give an OutputFilter"):
        attach(bert, "filter.safetensors")
    with pytest.raises(UnlabelError, match=r"a filter already: .*first\.then\(second\)\.$"):
        attach(attach(bert, fitted), fitted)
    only_cats = LabelPlan({"cat": "cat"}, unlisted="remove")
    lonely = OutputFilter.from_plan(only_cats, classes=CLASSES, kind="logits")
    with pytest.raises(UnlabelError, match="Only 'cat' would be left"):
        attach(bert, lonely)


WITHOUT_TRANSFORMERS = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "transformers":
            raise ModuleNotFoundError("No module named 'transformers'", name=name)

sys.meta_path.insert(0, Hidden())
import unlabel.huggingface
"""


def test_without_transformers_the_import_names_the_extra():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRANSFORMERS], capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == (
        "unlabel.errors.MissingExtraError: The module transformers is not installed: "
        "pip install 'unlabel[huggingface]'."
    )
