"""Messages of the Open Inference Protocol, against encoders written out here."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unlabel.serve.protocol import (
    ProtocolError,
    plain_outputs,
    read_message,
    read_outputs,
    write_answer,
)

DTYPES = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "INT64": "<i8", "UINT8": "<u1"}
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


def packed(texts):
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)


def message(outputs, binary=b"", **fields):
    text = json.dumps({"model_name": "m", "outputs": outputs, **fields}).encode()
    return read_message(text + binary, len(text) if binary else None, "It")


def tensor(name="p", shape=(2,), datatype="FP32", **fields):
    return {"name": name, "shape": [*shape], "datatype": datatype, **fields}


def values_of(output, binary=b""):
    [read] = read_outputs(message([output], binary))
    return read.values()


@st.composite
def arrays(draw):
    datatype = draw(st.sampled_from([*DTYPES]))
    finite = {"allow_nan": False, "allow_infinity": False} if "FP" in datatype else {}
    kind = hnp.from_dtype(np.dtype(DTYPES[datatype]), **finite)
    return datatype, draw(hnp.arrays(DTYPES[datatype], draw(SHAPES), elements=kind))


@given(arrays(), st.sampled_from(["flat", "nested", "binary"]))
def test_numbers_are_read_as_they_were_written(typed, form):
    datatype, array = typed
    if form == "binary":
        size = {"binary_data_size": array.nbytes}
        found = values_of(tensor("p", array.shape, datatype, parameters=size), array.tobytes())
    else:
        data = array.tolist() if form == "nested" else array.ravel().tolist()
        found = values_of(tensor("p", array.shape, datatype, data=data))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@given(st.lists(st.text(max_size=5), max_size=6), st.booleans())
def test_texts_are_read_as_they_were_written(texts, is_binary):
    if is_binary:
        data = packed(texts)
        size = {"binary_data_size": len(data)}
        found = values_of(tensor("p", (len(texts),), "BYTES", parameters=size), data)
    else:
        found = values_of(tensor("p", (len(texts),), "BYTES", data=texts))
    assert found.tolist() == texts


@given(arrays(), st.booleans(), st.text(max_size=5))
def test_a_changed_output_comes_back_in_its_form(typed, is_binary, text):
    datatype, array = typed
    if is_binary:
        size = {"binary_data_size": array.nbytes, "note": text}
        answer = message([tensor("p", array.shape, datatype, parameters=size)], array.tobytes())
    else:
        shown = tensor(
            "p", array.shape, datatype, data=array.ravel().tolist(), parameters={"note": text}
        )
        answer = message([shown])
    [output] = read_outputs(answer)
    new = np.concatenate([array, array])
    body, length = write_answer(answer, [output.changed(new)])
    [found] = json.loads(body[:length])["outputs"]
    assert (found["name"], found["shape"], found["datatype"]) == ("p", [*new.shape], datatype)
    assert found["parameters"]["note"] == text
    if is_binary:
        assert found["parameters"]["binary_data_size"] == new.nbytes
        assert body[length:] == new.tobytes()
    else:
        np.testing.assert_array_equal(np.array(found["data"], dtype=new.dtype), new.ravel())


def test_what_does_not_change_keeps_its_bytes():
    odd = b'{ "name":"e",\n"shape" : [2],"datatype":"FP32","data":[1.50, 1e0], "own":[{}]}'
    top = b'{"id": "\\u0041", "outputs": [' + odd + b'], "parameters": {"a": 1.0} }'
    answer = read_message(top, None, "It")
    body, _ = write_answer(answer, read_outputs(answer))
    assert odd in body
    assert b'"id":"\\u0041"' in body
    assert b'"parameters":{"a": 1.0}' in body


def test_binary_parts_belong_to_their_outputs():
    outputs = [
        tensor("a", (1,), "UINT8", parameters={"binary_data_size": 1}),
        tensor("b", (1,), "UINT8", data=[7]),
        tensor("c", (2,), "UINT8", parameters={"binary_data_size": 2}),
    ]
    a, b, c = read_outputs(message(outputs, b"\x01\x02\x03"))
    assert (a.values().tolist(), b.values().tolist(), c.values().tolist()) == ([1], [7], [2, 3])


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (tensor(data=[1.0]), "shape \\[2\\] and 1 values"),
        (tensor(data=[[1.0, 2.0]]), "data of the shape \\[1, 2\\]"),
        (tensor(shape=(2, 2), data=[[1.0], [2.0, 3.0]]), "does not hold values"),
        (tensor(data=["1", "2"]), "data of the output 'p' is not valid"),
        (tensor(data=[None, 1]), "data of the output 'p' is not valid"),
        (tensor(data=1.0), "data of the output 'p' is not valid"),
        (tensor(datatype="INT64", data=[1, 2**70]), "'p'"),
        (tensor(datatype="UINT8", data=[1, 256]), "does not hold values of the type UINT8"),
        (tensor(datatype="INT64", data=[1, 1.5]), "is not valid"),
        (tensor(shape=(-2,), data=[1.0, 2.0]), "shape"),
        (tensor(shape=[1] * 9, data=[1.0]), "shape"),
        (tensor(), "has no data"),
        (tensor(parameters={"binary_data_size": 8}), "0 bytes are left"),
        (tensor(parameters={"binary_data_size": -8}), "binary_data_size of -8"),
        (tensor(parameters={"binary_data_size": "8"}), "binary_data_size of 8"),
        (tensor(parameters={"binary_data_size": True}), "binary_data_size of True"),
        ({"name": "p", "datatype": "FP32", "data": []}, "shape"),
        ({**tensor(data=[1.0, 2.0]), "name": 3}, "name"),
    ],
)
def test_a_malformed_output_is_one_sentence(output, sentence):
    with pytest.raises(ProtocolError, match=sentence) as caught:
        values_of(output)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("binary", "size", "sentence"),
    [
        (b"1234", 4, "shape \\[2\\] in FP32 and 4 bytes"),
        (b"12345678", 4, "4 bytes behind its outputs"),
        (b"1234", 8, "4 bytes are left"),
    ],
)
def test_binary_data_must_fit(binary, size, sentence):
    with pytest.raises(ProtocolError, match=sentence):
        values_of(tensor(parameters={"binary_data_size": size}), binary)


@pytest.mark.parametrize("data", [b"\x05\0\0\0ab", b"\x01\0\0", b"\xff\xff\xff\xffa"])
def test_lengths_of_texts_must_fit(data):
    output = tensor("p", (1,), "BYTES", parameters={"binary_data_size": len(data)})
    with pytest.raises(ProtocolError, match="lengths do not fit"):
        values_of(output, data)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[1]", b"{", b'{"outputs": 3}', b'{"outputs": [3]}', b"{}"),
        *(b'{"outputs": [' * 100_000, b"[" * 100_000, b'{"a": "\xff"}'),
        b'{"outputs": [{"name": "p", "shape": [1], "datatype": "FP32", "data": [NaN]}]}',
    ],
)
def test_a_malformed_message_is_one_sentence(body):
    with pytest.raises(ProtocolError) as caught:
        read_outputs(read_message(body, None, "It"))[0].values()
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("length", [-1, 3])
def test_the_length_of_the_json_must_fit(length):
    with pytest.raises(ProtocolError, match="It has 2 bytes"):
        read_message(b"{}", length, "It")


def test_deep_data_are_refused_without_recursion():
    deep = b"[" * 100_000 + b"]" * 100_000
    body = b'{"outputs": [{"name": "p", "shape": [1], "datatype": "FP32", "data": %s}]}' % deep
    with pytest.raises(ProtocolError):
        read_outputs(read_message(body, None, "It"))[0].values()


def test_an_output_must_not_come_twice():
    with pytest.raises(ProtocolError, match="'p' twice"):
        read_outputs(message([tensor(data=[1, 2]), tensor(data=[1, 2])]))
    with pytest.raises(ProtocolError, match="'p' twice"):
        plain_outputs([tensor(data=[1, 2]), tensor(data=[1, 2])])


@pytest.mark.parametrize("fields", [{}, {"name": "p"}, {"name": "p", "shape": [1], "data": [1]}])
def test_plain_outputs_need_their_fields(fields):
    with pytest.raises(ProtocolError, match="needs a name, shape, datatype and data"):
        plain_outputs([fields])
