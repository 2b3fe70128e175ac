# SPDX-License-Identifier: BSD-2-Clause
"""Values that inputs are given while data is followed: what they reach, and that they can be drawn again."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.audit import draws
from trace_format.actions import Op, action, array_of
from trace_format.schema import DTYPE_BYTES, PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

COUNT = 4096


def slot(name: str, kind: SlotKind, dtype: DType, *, bound: bool = False) -> Slot:
    return Slot(name, kind, dtype, (COUNT,), (DTYPE_BYTES[dtype],), 0x10000, bound=bound)


def with_slots(*slots: Slot, image: bytes = b"") -> Trace:
    return Trace(
        "v3d42", array_of([action(Op.REPLAY_START)]), image, 16 * PAGE_BYTES, 32 * PAGE_BYTES, list(slots)
    )


def drawn(dtype: DType, kind: str) -> np.ndarray:
    found = with_slots(slot("in", SlotKind.INPUT, dtype))
    values = draws.drawn(found, draws.usual(found), kind)["in"]
    assert (values.dtype, values.shape) == (found.slots[0].numpy_dtype, (COUNT,))
    return values


FLOATS = [DType.FLOAT32, DType.FLOAT16]
INTEGERS = [dtype for dtype in DType if dtype not in FLOATS]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_of_all_magnitudes(dtype: DType) -> None:
    values = drawn(dtype, draws.WHOLE_RANGE)
    limits = np.finfo(values.dtype)
    assert np.isfinite(values).all()
    exponents = np.frexp(values[values != 0].astype(np.float64))[1]
    assert exponents.min() < limits.minexp + 3
    assert exponents.max() > limits.maxexp - 3
    assert 0.4 < (values < 0).mean() < 0.6


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_the_whole_range(dtype: DType) -> None:
    """Each bit is set in about half of them, as many at each place."""
    values = drawn(dtype, draws.WHOLE_RANGE)
    bits = np.unpackbits(values.view(np.uint8)).reshape(COUNT, -1)
    assert (abs(bits.mean(axis=0) - 0.5) < 0.05).all()


@pytest.mark.parametrize("dtype", DType)
def test_special_values(dtype: DType) -> None:
    values = drawn(dtype, draws.SPECIAL)
    if dtype in FLOATS:
        limits = np.finfo(values.dtype)
        wanted = {
            0.0,
            1.0,
            float(limits.max),
            float(-limits.max),
            float(limits.smallest_subnormal),
            np.inf,
            -np.inf,
        }
        assert np.isnan(values).any()
        assert np.signbit(values[values == 0]).any()
    else:
        whole = np.iinfo(values.dtype)
        wanted = {0, 1, int(whole.min), int(whole.max), 1 << (whole.bits - 2)}
    assert wanted <= set(values.tolist())
    assert len(np.unique(values.view(np.uint8))) > 250  # and any bits


def test_they_are_of_the_trace() -> None:
    """The same again for the same trace, others for another."""
    one, other = (with_slots(slot("in", SlotKind.INPUT, DType.INT32), image=image) for image in (b"", b"x"))
    for draw in (
        draws.usual,
        *(lambda t, k=k: draws.drawn(t, {}, k) for k in (draws.WHOLE_RANGE, draws.SPECIAL)),
    ):
        np.testing.assert_array_equal(draw(one)["in"], draw(one)["in"])
        assert (draw(one)["in"] != draw(other)["in"]).any()


def test_parameters_stay_and_what_may_be_left_out_is() -> None:
    found = with_slots(
        slot("in", SlotKind.INPUT, DType.FLOAT32),
        slot("more", SlotKind.INPUT, DType.FLOAT32, bound=True),
        slot("weights", SlotKind.PARAMETER, DType.FLOAT32),
        slot("out", SlotKind.OUTPUT, DType.FLOAT32),
    )
    usual = draws.usual(found)
    assert set(usual) == {"in", "more", "weights"}
    assert draws.drawn(found, usual, draws.USUAL) is usual
    assert set(draws.drawn(found, usual, draws.LEFT_OUT)) == {"in", "weights"}
    unusual = draws.drawn(found, usual, draws.SPECIAL)
    assert unusual["weights"] is usual["weights"]  # so that the prologue does not run again
    assert (unusual["in"] != usual["in"]).any()
