# SPDX-License-Identifier: BSD-2-Clause
"""Weights from a .npz file: each element where its slot wants it, and what is refused, with what was expected."""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.cli import main
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.importers.networks import file
from host_tools.extras.importers.networks.file import NetworkError
from host_tools.extras.importers.networks.weights import describe, read_weights, slot_values
from host_tools.passes.parameters import bind
from tests.support import mali_samples as m
from trace_format.actions import Op, actions_of
from trace_format.errors import GramophoneError
from trace_format.schema import SlotKind

MNIST = file.load("mnist")
SHAPES = {
    "W1": (9, 32),
    "b1": (32,),
    "W2": (288, 32),
    "b2": (32,),
    "W3": (288, 32),
    "b3": (32,),
    "WF": (1568, 10),
    "bf": (10,),
}
Arrays = dict[str, NDArray[np.float32]]


def arrays() -> Arrays:
    return {name: np.full(shape, i, np.float32) for i, (name, shape) in enumerate(SHAPES.items())}


def npz(values: Arrays) -> bytes:
    out = io.BytesIO()
    np.savez(out, **values)  # type: ignore[arg-type]
    return out.getvalue()


@given(st.permutations(["out", "y", "x", "in"]), st.permutations(["out", "y", "x", "in"]), st.integers(0, 7))
def test_an_array_in_any_order_of_axes(slot: list[str], array: list[str], cuts: int) -> None:
    """Cut into groups, each of which is one dimension of the array."""
    sizes = {"out": 2, "y": 3, "x": 4, "in": 5}
    groups: list[list[str]] = [[array[0]]]
    for i, axis in enumerate(array[1:]):
        if cuts >> i & 1:
            groups.append([axis])
        else:
            groups[-1].append(axis)
    network = file.parse(
        "made",
        f"""
title = "made"
slots = [
    {{ bytes = 480, name = "f.weight", axes = "{" ".join(slot)}", shape = {[sizes[axis] for axis in slot]} }},
    {{ bytes = 4, name = "input", axes = "x", shape = [1] }},
    {{ bytes = 4, name = "output", axes = "out", shape = [1] }},
]
layers = [{{ kind = "dense", name = "f" }}]
[arrays]
given = {{ slot = "f.weight", axes = {json.dumps([" ".join(group) for group in groups])} }}
""".encode(),
    )
    values = np.arange(120, dtype=np.float32).reshape([math.prod(sizes[a] for a in group) for group in groups])
    found = read_weights(npz({"given": values}), "w.npz", network)["f.weight"]
    assert found.shape == tuple(sizes[axis] for axis in slot)
    flat = values.reshape(-1)
    for index in np.ndindex(found.shape):
        at = dict(zip(slot, index, strict=True))
        number = 0
        for axis in array:
            number = number * sizes[axis] + at[axis]
        assert found[index] == flat[number]


def test_batch_norms_are_folded_where_the_recording_does_not() -> None:
    network = file.parse(
        "made",
        b"""
title = "made"
slots = [
    { bytes = 24, name = "a.weight", axes = "in out", shape = [2, 3] },
    { bytes = 12, name = "a.mean", axes = "out", shape = [3] },
    { bytes = 12, name = "a.variance", axes = "out", shape = [3] },
    { bytes = 12, name = "a.beta", axes = "out", shape = [3] },
    { bytes = 12, name = "a.gamma", axes = "out", shape = [3] },
    { bytes = 24, name = "b.weight", axes = "out in", shape = [3, 2] },
    { bytes = 12, name = "b.mean", axes = "out", shape = [3] },
    { bytes = 12, name = "b.variance", axes = "out", shape = [3] },
    { bytes = 12, name = "b.beta", axes = "out", shape = [3] },
    { bytes = 12, name = "b.gamma", axes = "out", shape = [3] },
    { bytes = 4, name = "input", axes = "x", shape = [1] },
    { bytes = 4, name = "output", axes = "out", shape = [1] },
]
layers = [
    { kind = "convolution", name = "a" },
    { kind = "batch-norm", name = "a", epsilon = 0.25, folded = true },
    { kind = "convolution", name = "b" },
    { kind = "batch-norm", name = "b", epsilon = 0.25 },
]
""",
    )
    generator = np.random.default_rng(1)
    tensors = {s.name: generator.random(s.shape, np.float32) for s in network.parameters.values()}
    found = slot_values(tensors, network)
    assert found.keys() == tensors.keys()
    for name in tensors.keys() - {"a.weight"}:
        np.testing.assert_array_equal(found[name], tensors[name])
    for i, out in np.ndindex(2, 3):
        scale = float(tensors["a.gamma"][out]) / math.sqrt(float(tensors["a.variance"][out]) + 0.25)
        assert found["a.weight"][i, out] == np.float32(float(tensors["a.weight"][i, out]) * scale)
    for name in ("a", "b"):
        with pytest.raises(NetworkError, match=rf"{name}.variance: expected above -0.25, found -0.5"):
            slot_values({**tensors, f"{name}.variance": np.array([1, -0.5, 0], np.float32)}, network)


def changed(**values: NDArray[np.float32] | None) -> bytes:
    return npz({name: value for name, value in {**arrays(), **values}.items() if value is not None})


def encrypted() -> bytes:
    """Bit 0 of the flags of each member's entries says that it is encrypted."""
    data = bytearray(changed())
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = data.find(signature)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(signature, at + 4)
    return bytes(data)


def twice() -> bytes:
    out = io.BytesIO(changed())
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("b1.npy", b"")
    return out.getvalue()


def packed(content: bytes) -> bytes:
    """With other bytes, compressed, in b1's place."""
    out = io.BytesIO(changed(b1=None))
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b1.npy", content)
    return out.getvalue()


ALL = "W1 (9, 32), b1 (32,), W2 (288, 32), b2 (32,), W3 (288, 32), b3 (32,), WF (1568, 10), bf (10,)"
BAD = {
    "nothing": (b"", "not a readable .npz file of " + ALL),
    "text": (b"weights", "not a readable .npz file of " + ALL),
    "an array": (changed()[64:], "w.npz: not a readable .npz file of "),
    "cut off": (changed()[:-30], "not a readable .npz file"),
    "damaged": (changed().replace(np.full(8, 2, np.float32).tobytes(), bytes(32), 1), "Bad CRC-32"),
    "encrypted": (encrypted(), "not a readable .npz file"),
    "missing": (
        changed(W2=None, bf=None),
        f"expected arrays of float32 {ALL}; missing: W2, bf; superfluous: none",
    ),
    "superfluous": (changed(W4=np.zeros(1, np.float32)), f"{ALL}; missing: none; superfluous: W4"),
    "renamed": (changed(W2=None, conv2=np.zeros((288, 32), np.float32)), "missing: W2; superfluous: conv2"),
    "twice": (twice(), "missing: none; superfluous: b1"),
    "transposed": (
        changed(W1=np.zeros((32, 9), np.float32)),
        "w.npz: W1: expected float32 (9, 32), found float32 (32, 9)",
    ),
    "another rank": (
        changed(b1=np.zeros((1, 32), np.float32)),
        "b1: expected float32 (32,), found float32 (1, 32)",
    ),
    "too large": (changed(b1=np.zeros(4096, np.float32)), "b1: expected at most 10128 bytes, found 16512"),
    "float16": (changed(b1=np.zeros(32, np.float16)), "b1: expected float32 (32,), found float16 (32,)"),
    "big-endian": (changed(b1=np.zeros(32, ">f4")), "b1: expected float32 (32,), found >f4 (32,)"),
    "objects": (changed(b1=np.array([None] * 32)), "b1: a damaged .npy file"),
    "no array": (packed(b"text"), "b1 at offset 0x0: not a .npy file"),
    "a cut array": (packed(npz({"b1": np.zeros(32, np.float32)})[41:60]), "b1 at offset 0x0: not a .npy file"),
    "a bomb": (packed(bytes(1 << 24)), "b1: expected at most 10128 bytes, found 16777216"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_file(name: str) -> None:
    data, message = BAD[name]
    with pytest.raises(GramophoneError) as error:
        read_weights(data, "w.npz", MNIST)
    assert str(error.value).startswith("w.npz: ")
    assert message in str(error.value)


@given(st.data())
def test_any_damage_is_an_error_or_leaves_arrays(data: st.DataObject) -> None:
    content = bytearray(npz({"b": np.zeros(3, np.float32)}))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    small = file.parse("small", SMALL.replace("w.bias", "f.bias").encode())
    cut = data.draw(st.sampled_from([len(content), len(content) // 2, len(content) - 3]))
    try:
        found = read_weights(bytes(content[:cut]), "w.npz", small)
    except GramophoneError:
        return
    assert [(name, array.shape, array.dtype) for name, array in found.items()] == [
        ("f.weight", (3,), np.dtype("<f4"))
    ]


# For the small recording: its second buffer has 1,024 floats, of which 3 are used; the input has 16.
SMALL = f"""
title = "small"
slots = [
    {{ bytes = 32 }},
    {{ bytes = {m.PAGE}, name = "f.weight", axes = "in", shape = [3], strides = [8] }},
    {{ bytes = 64, name = "input", axes = "y x", shape = [2, 2], strides = [32, 8] }},
    {{ bytes = 40, name = "output", axes = "out", shape = [7] }},
]
layers = [{{ kind = "dense", name = "f" }}]
[arrays]
b = {{ slot = "f.weight", axes = ["in"] }}
"""


def test_slots_of_a_described_recording(tmp_path: Path) -> None:
    flat = import_gpureplay(m.write(tmp_path, m.recording()), "small")
    trace = describe(flat, file.parse("small", SMALL.encode()))
    assert [(s.name, s.kind, s.shape, s.strides, s.address, s.bound) for s in trace.slots] == [
        ("f.weight", SlotKind.PARAMETER, (3,), (8,), m.DATA + 0x100, False),
        ("input", SlotKind.INPUT, (2, 2), (32, 8), m.DATA, False),
        ("output", SlotKind.OUTPUT, (7,), (4,), m.DATA + 2 * m.PAGE, False),
    ]
    copies = [(r.op, r.slot) for r in actions_of(trace.actions) if r.op in (Op.COPY_TO_GPU, Op.COPY_FROM_GPU)]
    assert copies == [(Op.COPY_TO_GPU, 0), (Op.COPY_TO_GPU, 1), (Op.COPY_FROM_GPU, 2)]
    assert len(trace.actions) == len(flat.actions) - 1
    assert trace.raw
    assert trace.build() == trace.parse(trace.build()).build()
    bound = bind(trace, {"f.weight": np.ones(3, np.float32)})
    assert [s.bound for s in bound.slots] == [True, False, False]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bytes = 40,", "bytes = 44,", "bytes of buffer 3: expected 44, found 40"),
        ("{ bytes = 32 },", "", "number of buffers: expected 3, found 4"),
        ("{ bytes = 32 },", "{ bytes = 32 }, { bytes = 32 },", "number of buffers: expected 5, found 4"),
    ],
)
def test_a_recording_of_another_network(tmp_path: Path, old: str, new: str, message: str) -> None:
    flat = import_gpureplay(m.write(tmp_path, m.recording()), "small")
    described = file.parse("small", SMALL.replace(old, new, 1).encode())
    with pytest.raises(NetworkError) as error:
        describe(flat, described)
    assert str(error.value) == f"not a recording of small: {message}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weights", "w.npz"], "--weights requires --recorded-network"),
        (["--recorded-network", "lenet"], "'lenet' is not one of"),
        (
            ["--recorded-network", "mnist"],
            "gr_sync_as: not a recording of mnist: number of buffers: expected 11, found 4",
        ),
        (["--recorded-network", "mnist", "--weights", "none.npz"], "none.npz: No such file"),
    ],
)
def test_the_command_refuses(tmp_path: Path, options: list[str], message: str) -> None:
    words = ["import", "gpureplay", str(m.write(tmp_path, m.recording())), "-o", str(tmp_path / "raw.gtr")]
    done = CliRunner().invoke(main, words + options)
    assert done.exit_code == 2
    assert message in done.stderr.replace("\n", " ")
    assert not (tmp_path / "raw.gtr").exists()
