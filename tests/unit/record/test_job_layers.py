# SPDX-License-Identifier: BSD-2-Clause
"""Jobs get the names of the layers whose results they write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.record.job_layers import KINDS, Sums, matched, sums

GENERATOR = np.random.default_rng(6)
A, B, C = (GENERATOR.normal(0, 1, 640).astype(np.float32) for _ in range(3))


def wrote(*values: NDArray[Any]) -> list[Sums]:
    """What a job that writes these leaves."""
    data = np.frombuffer(b"".join(value.tobytes() for value in values), np.uint8)
    return [sums(data.view(kind)) for kind in KINDS]


def of(*values: NDArray[Any]) -> list[Sums]:
    return [sums(value) for value in values]


def test_a_layer_is_known_whatever_the_order_of_its_values_and_the_gaps_between() -> None:
    packed = np.concatenate([A.reshape(4, 160).T.reshape(-1), np.zeros(64, np.float32)])
    assert matched([wrote(packed), wrote(B * np.float32(1.0001))], of(A, B)) == [0, 1]


def test_what_computes_no_result_leads_to_the_next_and_the_last_carries_out() -> None:
    other = GENERATOR.normal(5, 1, 100).astype(np.float32)
    assert matched([wrote(other), wrote(A), wrote(A), wrote(B), wrote(B)], of(A, B)) == [0, 0, 1, 1, 1]


def test_jobs_that_write_a_result_in_parts_have_its_name() -> None:
    assert matched([wrote(A), wrote(B), wrote(A), wrote(B), wrote(C)], of(A, B, np.concatenate([A, B]), C)) == [
        0,
        1,
        2,
        2,
        3,
    ]


def test_of_half_precision() -> None:
    assert matched([wrote(A.astype(np.float16))], of(B, A)) == [1]


def test_nothing_is_known_of_values_that_nobody_computes() -> None:
    assert matched([wrote(A), wrote(B)], of(C)) == [None, None]
    assert matched([wrote(A)], []) == [None]
    assert matched([], of(A)) == []
    assert matched([wrote(np.zeros(64, np.float32))], of(np.zeros(64, np.float32))) == [
        None
    ]  # zeros are anybody's
