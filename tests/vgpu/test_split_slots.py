# SPDX-License-Identifier: BSD-2-Clause
"""Slots whose tensor lies in memory in groups: users give and get the tensor's own shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.passes.pipeline import build
from host_tools.runners import run
from host_tools.runners.replay import InputError
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support.signing_samples import SIGNERS
from trace_format.errors import SectionError
from trace_format.schema import SlotKind
from trace_format.trace import Trace, notes_bytes

SIGNER = SIGNERS["es256"]


@pytest.fixture(scope="module")
def whole() -> Trace:
    return build(Trace.read(RAW))


@pytest.fixture(scope="module")
def split(whole: Trace) -> Trace:
    """LeNet's trace with rows of the picture in groups of four, and the classes in two."""
    slots = []
    for slot in whole.slots:
        if slot.kind == SlotKind.INPUT:
            by_channel, by_row, by_column = slot.strides
            strides = by_channel, 4 * by_row, by_row, by_column
            slot = replace(slot, shape=(1, 7, 4, 28), strides=strides, split=1)
        elif slot.kind == SlotKind.OUTPUT:
            slot = replace(slot, shape=(2, 5), strides=(5 * slot.strides[0], slot.strides[0]), split=0)
        slots.append(slot)
    return whole.with_(slots=slots)


def test_a_replay_takes_and_gives_the_tensors_own_shape(whole: Trace, split: Trace) -> None:
    picture = {"data": np.random.default_rng(5).random((1, 28, 28), np.float32)}
    results = [
        run("vgpu", Delivery(sign_trace(trace.build(), SIGNER)), SIGNER.public, picture)
        for trace in (whole, split)
    ]
    assert results[1].ok, results[1].error
    assert results[1].outputs["prob"].shape == (10,)
    assert np.array_equal(results[0].outputs["prob"], results[1].outputs["prob"])
    wrong = {"data": picture["data"].reshape(1, 7, 4, 28)}
    delivery = Delivery(sign_trace(split.build(), SIGNER))
    with pytest.raises(InputError, match=r"shape \(1, 28, 28\), found float32 of shape \(1, 7, 4, 28\)"):
        run("vgpu", delivery, SIGNER.public, wrong)


def test_it_travels_in_the_notes(whole: Trace, split: Trace) -> None:
    again = Trace.parse(split.build())
    assert again.slots == split.slots
    assert again.notes == whole.notes
    assert [slot.tensor_shape for slot in again.slots] == [slot.shape for slot in whole.slots]


@pytest.mark.parametrize("splits", [[], 1, {"data": 3}, {"data": -1}, {"data": True}, {"data": "0"}, {"more": 0}])
def test_notes_that_say_nonsense_of_axes(split: Trace, splits: object) -> None:
    slots = [replace(slot, split=None) for slot in split.slots]
    bad = split.with_(slots=slots, notes={"split_axes": splits})
    assert notes_bytes(bad.notes)
    with pytest.raises(SectionError, match="split_axes of slot"):
        Trace.parse(bad.build())
