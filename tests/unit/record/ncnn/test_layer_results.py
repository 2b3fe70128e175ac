# SPDX-License-Identifier: BSD-2-Clause
"""Results of an ncnn network's layers."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.machine.errors import RecordError
from host_tools.record.job_layers import sums
from host_tools.record.ncnn.layer_results import layer_results

PARAM = b"""7767517
4 5
Input data 0 1 data
Split two 1 2 data a b
ReLU up 1 1 a up
UnaryOp down 1 1 b down 0=1
"""
X = np.array([-1.0, 2.0, 3.0], np.float32)


def test_each_layer_that_computes_something() -> None:
    found = layer_results((PARAM, b""), (), {"data": X})
    assert [(result.layer, result.kind, result.takes, result.tensor) for result in found] == [
        ("up", "ReLU", ["a"], "up"),
        ("down", "UnaryOp", ["b"], "down"),
    ]
    np.testing.assert_allclose(found[0].sums, sums(np.maximum(X, 0)))
    np.testing.assert_allclose(found[1].sums, sums(-X))


def test_only_what_leads_to_a_blob() -> None:
    assert [result.layer for result in layer_results((PARAM, b""), ["up"], {"data": X})] == ["up"]


def test_an_input_that_the_network_does_not_have() -> None:
    with pytest.raises(RecordError, match="no input blob 'other'"):
        layer_results((PARAM, b""), (), {"other": X})
