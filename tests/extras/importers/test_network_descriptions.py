# SPDX-License-Identifier: BSD-2-Clause
"""Descriptions of recorded networks: what is read of a file, and what is refused, with its place."""

from __future__ import annotations

import pytest

from host_tools.extras.importers.networks import file
from host_tools.extras.importers.networks.file import NetworkError
from host_tools.extras.importers.networks.layers import Convolution, Dense, Flatten
from trace_format.schema import SlotKind

TEXT = """
title = "small"
slots = [
    { bytes = 8 },
    { bytes = 100, name = "c.weight", axes = "out y x", shape = [2, 3, 3], strides = [48, 16, 4] },
    { bytes = 72, name = "f.weight", axes = "out in", shape = [3, 6] },
    { bytes = 12, name = "f.bias", axes = "out", shape = [3] },
    { bytes = 64, name = "input", axes = "y x", shape = [4, 3] },
    { bytes = 16, name = "output", axes = "out", shape = [3] },
]
layers = [
    { kind = "convolution", name = "c", stride = 1, groups = 1 },
    { kind = "flatten", order = "y x channel" },
    { kind = "dense", name = "f" },
]
"""
ARRAYS = """
[arrays]
A = { slot = "c.weight", axes = ["y x", "out"] }
B = { slot = "f.weight", axes = ["in", "out"] }
C = { slot = "f.bias", axes = ["out"] }
"""


def test_what_a_file_says() -> None:
    network = file.parse("small", (TEXT + ARRAYS).encode())
    kinds = [SlotKind.PARAMETER] * 4 + [SlotKind.INPUT, SlotKind.OUTPUT]
    assert [(b.bytes, b.kind) for b in network.buffers] == list(zip([8, 100, 72, 12, 64, 16], kinds, strict=True))
    assert list(network.parameters) == ["c.weight", "f.weight", "f.bias"]
    assert network.slots["c.weight"].strides == (48, 16, 4)
    assert network.slots["f.weight"].strides == (24, 4)
    assert network.layers == (Convolution("c"), Flatten("y x channel"), Dense("f"))
    assert network.arrays["A"] == file.Array("c.weight", (("y", "x"), ("out",)))


def test_arrays_are_as_the_slots_where_nothing_is_said() -> None:
    network = file.parse("small", TEXT.encode())
    assert network.arrays == {
        "c.weight": file.Array("c.weight", (("out",), ("y",), ("x",))),
        "f.weight": file.Array("f.weight", (("out",), ("in",))),
        "f.bias": file.Array("f.bias", (("out",),)),
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "small"', "", "title is missing"),
        ("title", "other = 1\ntitle", "unknown keys other"),
        ("title", "title =", "not TOML"),
        ("{ bytes = 8 },", "8,", "slot 0: expected a table, found 8"),
        ("{ bytes = 8 }", "{}", "slot 0: bytes is missing"),
        ("bytes = 8", "bytes = 8, name = 'a'", "slot 0: axes is missing"),
        ('"out y x"', '"out y y"', "slot 1: axes, shape and strides: expected as many of each, no axis twice"),
        ('"out y x"', '"out y"', "slot 1: axes, shape and strides"),
        ("[48, 16, 4]", "[48, 16]", "slot 1: axes, shape and strides"),
        (
            "[48, 16, 4]",
            "[68, 16, 4]",
            "slot 1: bytes that shape and strides reach: expected at most 100, found 112",
        ),
        ("[2, 3, 3]", "[2, 0, 3]", "slot 1: shape: expected a list of whole numbers above 0, found [2, 0, 3]"),
        ("[2, 3, 3]", "[2, true, 3]", "slot 1: shape: expected a list of whole numbers above 0"),
        ('"f.bias", axes', '"f.weight", axes', "a name of a slot is used twice"),
        (', name = "input", axes = "y x", shape = [4, 3]', "", "an input and an output at the end"),
        ('kind = "flatten"', 'kind = "fold"', "layer 1: kind: expected one of convolution, "),
        ("stride = 1", "stride = 0", "layer 0: stride: expected a larger number, found 0"),
        ("stride = 1", "pad_after = -1", "layer 0: pad_after: expected a larger number, found -1"),
        ("stride = 1", "stride = 1.0", "layer 0: stride: expected a value of type int, found 1.0"),
        ("stride = 1", "steps = 1", "layer 0: unknown keys steps"),
        ("y x channel", "y x", 'layer 1: order: expected "channel", "y" and "x" in some order'),
        ('kind = "dense", name = "f"', 'kind = "softmax"', "not one slot and one layer each: f.bias, f.weight"),
        (
            'kind = "dense", name = "f"',
            'kind = "dense", name = "g"',
            "not one slot and one layer each: f.bias, f.",
        ),
        (
            'kind = "dense", name = "f"',
            'kind = "dense", name = "c"',
            "not one slot and one layer each: c.weight, f.",
        ),
        ('slot = "f.bias"', 'slot = "f.weight"', "arrays: expected one for each parameter, found A, B, C"),
        ('C = { slot = "f.bias", axes = ["out"] }', "", "arrays: expected one for each parameter, found A, B"),
        ('["y x", "out"]', '["y x"]', "arrays.A: axes: expected those of c.weight, ('out', 'y', 'x'), found"),
        ('["y x", "out"]', '["y x", "in"]', "arrays.A: axes: expected those of c.weight"),
        ('["in", "out"]', "[1]", "arrays.B: axes: expected a list of texts"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    text = TEXT + ARRAYS
    assert text.count(old) >= 1
    with pytest.raises(NetworkError) as error:
        file.parse("small", text.replace(old, new, 1).encode())
    assert str(error.value).startswith("small.toml: ")
    assert message in str(error.value)


def test_a_network_that_is_not_there() -> None:
    with pytest.raises(
        NetworkError, match=r"no network 'lenet' is described; there are: alexnet, mnist, mobilenet"
    ):
        file.load("lenet")
