# SPDX-License-Identifier: BSD-2-Clause
"""Weights that the tests round are near what they were, as ggml's own loops read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.gguf.model import read_model
from tests.support.gguf_file import save, weights
from tests.support.gguf_models import Decoder
from tests.support.requantized import ROUND, requantized, rounded

STEPS = {
    "Q8_0": 254,
    "Q4_0": 15,
    "Q4_1": 30,
    "Q5_0": 31,
    "Q4_K": 30,
}  # at least, from the least to the largest: half steps
SCALES = 1.06  # a K form's scales are rounded to 6 bits


@pytest.mark.parametrize("kind", ROUND)
def test_weights_are_near(kind: str) -> None:
    """Within half a step of each block of 32, also where a block is zero, positive or negative."""
    w = np.random.default_rng(3).normal(0, 0.1, (4, 512)).astype(np.float32)
    w[0, :32], w[1], w[2] = 0, np.abs(w[1]), -np.abs(w[2])
    found = weights(kind, rounded(kind, w)).reshape(-1, 32)
    w = w.reshape(-1, 32)
    spread = np.maximum(w.max(-1), 0) - np.minimum(w.min(-1), 0)
    most = 2 * np.abs(w).max(-1) if kind in ("Q8_0", "Q4_0", "Q5_0") else spread
    allowed = most / STEPS[kind] * SCALES
    if kind == "Q4_K":  # scales of groups are multiples of a 63rd of the largest of 256 columns
        allowed += np.repeat(spread.reshape(-1, 8).max(-1), 8) / 63
    assert (np.abs(found - w).max(-1) <= allowed + 1e-6).all()


def test_whole_files(tmp_path: Path) -> None:
    """Keys and vectors stay; rows of half a block keep their place in another type."""
    model = read_model(
        Decoder("F32", width=192, hidden=256, heads=3, groups=3, layers=1).write(tmp_path / "m.gguf")
    )
    other = read_model(save(tmp_path / "k.gguf", requantized(model, "Q4_K")))
    assert other.head.values == model.head.values
    kinds = {name: (tensor.kind, tensor.shape) for name, tensor in other.head.tensors.items()}
    shapes = {name: tensor.shape for name, tensor in model.head.tensors.items()}
    wide = {name for name, shape in shapes.items() if shape[-1] == 256 and len(shape) == 2}
    assert wide == {"blk.0.ffn_down.weight"}
    vectors = {name for name, shape in shapes.items() if len(shape) == 1}
    expected = {name: "Q4_K" if name in wide else "F32" if name in vectors else "Q5_0" for name in shapes}
    assert kinds == {name: (expected[name], shape) for name, shape in shapes.items()}
    for name in vectors:
        assert np.array_equal(other.floats(name), model.floats(name))
    again = read_model(save(tmp_path / "r.gguf", requantized(other, "Q8_0")))
    for name in shapes.keys() - vectors - wide:  # 8 bits have room for 5
        assert np.abs(again.floats(name) - other.floats(name)).max() < 5e-3 * np.abs(other.floats(name)).max()
